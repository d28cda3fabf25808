#!/usr/bin/env bash
# Variator's plugins for a trained Multi30k model, and their competitors, by BLEU on test_2016_flickr.
#
# Usage: variator.sh      after prepare.sh and run.sh
# Environment: BACKBONE (runs/multi30k/small/teacher/checkpoint_best.pt): the model; a PET student works too.
#   DATA (runs/multi30k/data), RUNS (runs/multi30k/variator), ROWS, STAGES, DRY_RUN: scripts/variator.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/variator.sh"
folder=${DATA:-$ROOT/runs/multi30k/data}
DATA=$folder/bin RUNS=${RUNS:-$ROOT/runs/multi30k/variator} RAW= LENGTH=${LENGTH:-16}
BACKBONE=${BACKBONE:-$ROOT/runs/multi30k/small/teacher/checkpoint_best.pt}
ROWS=${ROWS:-backbone k2 k4 k8 mean_copy token_pruning narrow_ffn}
schedule=(--max-tokens 3000 --max-update 1500 --total-num-update 1500 --warmup-updates 150)
COMMON=(--cpu --num-workers 0 --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler polynomial_decay
  --source-lang de --target-lang en)
TASK=(--task translation)
PLUGINS_TASK=("${schedule[@]}" --lr 2e-3)
WHOLE_TASK=("${schedule[@]}" --lr 5e-4 --dropout 0)

evaluate() {
  generate_answers "$1" --source-lang de --target-lang en --cpu --max-tokens 3000 --beam 5 --remove-bpe --tokenizer moses
  write "$1/result.json" pet-fairseq score bleu "$1/generate.txt" "$folder/raw/test.en"
}
variator_recipe
