#!/usr/bin/env bash
# `make demo`: toy data -> teacher -> student of the same size from scratch -> PET student ->
# translations with beams 1 and 5 -> runs/demo/report.md and two plots. About 10 minutes on two cores.
#
# Environment: RUNS (runs/demo), SEED (1), STAGES, DRY_RUN. Called again, it goes on where it stopped.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$ROOT/scripts/compare.sh"
RUNS=${RUNS:-$ROOT/runs/demo}
data=$RUNS/data

binarise() {
  rm -rf "$data/bin" "$data/bin.tmp"
  run fairseq-preprocess --source-lang de --target-lang en --trainpref "$data/raw/train" \
    --validpref "$data/raw/valid" --testpref "$data/raw/test" --destdir "$data/bin.tmp" --workers 2
  run mv "$data/bin.tmp" "$data/bin"
}

stage toy-data "$data/raw/test.en" run pet-fairseq toy-data "$data/raw"
stage preprocess "$data/bin" binarise

COMMON=(--source-lang de --target-lang en --seed "${SEED:-1}" --cpu --num-workers 0 --max-tokens 2000
  --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --warmup-updates 200
  --label-smoothing 0.1 --share-decoder-input-output-embed)
TEACHER=(--arch transformer --criterion label_smoothed_cross_entropy --lr 2e-3 --max-update 1100 --dropout 0.1
  --encoder-layers 3 --decoder-layers 3 --encoder-attention-heads 4 --decoder-attention-heads 4
  --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256)
student=(--lr 6e-3 --max-update 1000 --dropout 0 --encoder-normalize-before --decoder-normalize-before
  --encoder-embed-dim 48 --decoder-embed-dim 48)
SCRATCH=(--arch transformer --criterion label_smoothed_cross_entropy "${student[@]}"
  --encoder-layers 2 --decoder-layers 2 --encoder-attention-heads 4 --decoder-attention-heads 4
  --encoder-ffn-embed-dim 84 --decoder-ffn-embed-dim 84)
PET=(--arch pet_transformer_tiny "${student[@]}" --distillation-alpha 0.9 --distillation-temperature 1
  --encoder-ffn-embed-dim 96 --decoder-ffn-embed-dim 96)
GENERATE=(--source-lang de --target-lang en --tokenizer space --cpu --num-workers 0 --max-tokens 2000)
REPEATS=${REPEATS:-2}
declare -A TITLES=([teacher]=Teacher [scratch]="Same size, from scratch" [pet]="PET student")
compare "$RUNS" "$data/bin" "$data/raw/test.en"
[ "${DRY_RUN:-0}" = 1 ] || echo "see $RUNS/report.md, $RUNS/bleu_over_rate.png, $RUNS/sentences_per_second.png"
