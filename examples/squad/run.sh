#!/usr/bin/env bash
# SQuAD v1.1 as text-to-text: a model, Variator's plugins for it and their competitors, by exact match and F1.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA, RUNS: folders (runs/squad/data, runs/squad/text); ROWS, BACKBONE, PRETRAINED, STAGES, DRY_RUN: scripts/variator.sh.
# The sizes are for one GPU: a small model learns little here. CPU=1 runs on the CPU.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/variator.sh"
folder=${DATA:-$ROOT/runs/squad/data}
DATA=$folder/text RUNS=${RUNS:-$ROOT/runs/squad/text} RAW=$folder/raw_text LENGTH=${LENGTH:-256}
[ "${DRY_RUN:-0}" = 1 ] || [ -d "$RAW" ] || RAW=
device=(--fp16)
[ "${CPU:-0}" != 1 ] || device=(--cpu)

COMMON=("${device[@]}" --num-workers 0 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1
  --lr-scheduler polynomial_decay)
ARCH=(--arch transformer --share-all-embeddings)
for stack in encoder decoder; do
  ARCH+=(--$stack-layers 6 --$stack-embed-dim 512 --$stack-ffn-embed-dim 2048 --$stack-attention-heads 8 --$stack-normalize-before)
done
TASK=(--task translation --source-lang text --target-lang answer)
RAW_TASK=(--task span_masked_lm --tokens-per-sample 512 --sample-break-mode none)
MODEL_RAW=(--criterion label_smoothed_cross_entropy --max-tokens 16384 --lr 5e-4 --dropout 0.1 $(updates 50000))
MODEL_TASK=(--criterion label_smoothed_cross_entropy --max-tokens 16384 --lr 3e-4 --dropout 0.1 $(updates 10000))
PLUGINS_RAW=(--max-tokens 16384 --lr 1e-3 $(updates 20000))
PLUGINS_TASK=(--max-tokens 16384 --lr 1e-4 $(updates 8000))
WHOLE_TASK=(--max-tokens 16384 --lr 5e-5 $(updates 8000))

evaluate() {
  generate_answers "$1" "${device[@]}" --beam 1 --max-tokens 16384
  write "$1/result.json" pet-fairseq score squad "$1/generate.txt" "$folder/raw/test.answers.json"
}
variator_recipe
