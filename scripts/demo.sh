#!/usr/bin/env bash
# `make demo`: toy data -> teacher -> student of the same size from scratch -> PET student ->
# translations with beams 1 and 5 -> runs/demo/report.md and plots. About 10 minutes on two cores.
#
# Environment: RUNS (runs/demo), SEEDS (1), STAGES, DRY_RUN. Called again, it goes on where it stopped.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$ROOT/scripts/recipe.sh"
RUNS=${RUNS:-$ROOT/runs/demo} SRC=de TGT=en ROWS=${ROWS:-teacher scratch pet}
DATA=$RUNS/data REFERENCE=$RUNS/data/raw/test.en

binarise() {
  rm -rf "$DATA/bin" "$DATA/bin.tmp"
  run fairseq-preprocess --source-lang de --target-lang en --trainpref "$DATA/raw/train" \
    --validpref "$DATA/raw/valid" --testpref "$DATA/raw/test" --destdir "$DATA/bin.tmp" --workers 2
  run mv "$DATA/bin.tmp" "$DATA/bin"
}

stage toy-data "$DATA/raw/test.en" run pet-fairseq toy-data "$DATA/raw"
stage preprocess "$DATA/bin" binarise

COMMON=(--cpu --num-workers 0 --max-tokens 2000 --optimizer adam --adam-betas '(0.9, 0.98)'
  --lr-scheduler inverse_sqrt --warmup-updates 200 --share-decoder-input-output-embed)
TEACHER=(--arch transformer --lr 2e-3 --max-update 1100 --dropout 0.1 $(stacks 3 128 256 4))
STUDENT=(--lr 6e-3 --encoder-normalize-before --decoder-normalize-before)
UPDATES="--max-update 1000"
WARMUP=(--max-update 100 --confident-correct auto --confident-wrong auto)
GOLD=(--dropout 0) SIMPLIFIED=(--dropout 0)
DISTILLATION=(--dropout 0 --distillation-alpha 0.9 --distillation-temperature 1 --teacher-cache-mb 500)
PLAIN_ARCH=(--arch transformer $(stacks 2 48 84 4))
PET_ARCH=(--arch pet_transformer_tiny $(stacks 4 48 96 4))
GENERATE=(--tokenizer space --cpu --num-workers 0 --max-tokens 2000)
REPEATS=${REPEATS:-2}
recipe
[ "${DRY_RUN:-0}" = 1 ] || echo "see $RUNS/report.md and the plots beside it"
