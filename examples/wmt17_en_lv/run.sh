#!/usr/bin/env bash
# WMT'17 en->lv: PET at 5.0% of transformer_iwslt_de_en (thesis, Table 4).
#
# Usage: run.sh           after prepare.sh
# Environment: what scripts/recipe.sh names: SIZE, ROWS, SEEDS, STAGES, BEAMS, REPEATS, DATA, RUNS, DRY_RUN.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/recipe.sh"
settings wmt17_en_lv en lv full
if [ "$SIZE" = full ]; then
  # the thesis gives the rate, not the widths: these come next to it (pet-fairseq params --target-rate 5)
  pet="$(stacks 4 232 464 4) --decoder-embed-dim 176 --decoder-ffn-embed-dim 352"
  PET_ARCH=(--arch pet_transformer $pet)
  WIDE_ARCH=(--arch pet_transformer $pet --encoder-attention-heads 8 --encoder-head-dim 58
    --decoder-attention-heads 8 --decoder-head-dim 44)
  SPEED_ARCH=(--arch transformer $pet)
  PLAIN_ARCH=(--arch transformer $(stacks 3 160 320 4))
  DEEP_ARCH=(--arch deep_shallow_12_1 $(stacks 12 120 240 4) --decoder-layers 1)
  CAN_ARCH=(--arch can_iwslt_de_en $(stacks 6 152 304 4) --decoder-layers 2)
fi
recipe
