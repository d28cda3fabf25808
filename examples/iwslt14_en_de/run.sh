#!/usr/bin/env bash
# IWSLT'14 en->de: PET at 9.5% of transformer_iwslt_de_en (thesis, Table 4).
#
# Usage: run.sh           after prepare.sh
# Environment: what scripts/recipe.sh names: SIZE, ROWS, SEEDS, STAGES, BEAMS, REPEATS, DATA, RUNS, DRY_RUN.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/recipe.sh"
settings iwslt14_en_de en de full
REFERENCE=$DATA/lower/test.$TGT # the models write lower case
recipe
