#!/usr/bin/env bash
# WMT'17 en->fi: PET at 23.3% of transformer_iwslt_de_en (thesis, Table 4).
#
# Usage: run.sh           after prepare.sh
# Environment: what scripts/recipe.sh names: SIZE, ROWS, SEEDS, STAGES, BEAMS, REPEATS, DATA, RUNS, DRY_RUN.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/recipe.sh"
settings wmt17_en_fi en fi full
if [ "$SIZE" = full ]; then
  # the thesis gives the rate, not the widths: these come next to it (pet-fairseq params --target-rate 23.3)
  PET_ARCH=(--arch pet_transformer $(stacks 4 368 1472 4))
  WIDE_ARCH=(--arch pet_transformer $(stacks 4 368 1472 8) --encoder-head-dim 92 --decoder-head-dim 92)
  SPEED_ARCH=(--arch transformer $(stacks 4 368 1472 4))
  PLAIN_ARCH=(--arch transformer $(stacks 3 352 704 4))
  DEEP_ARCH=(--arch deep_shallow_12_1 $(stacks 12 264 528 4) --decoder-layers 1)
  CAN_ARCH=(--arch can_iwslt_de_en $(stacks 6 320 640 4) --decoder-layers 2)
fi
recipe
