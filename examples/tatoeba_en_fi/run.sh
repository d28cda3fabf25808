#!/usr/bin/env bash
# Tatoeba en->fi: the stand-in for WMT'17 en->fi that two CPU cores can train.
#
# Usage: run.sh           after prepare.sh
# Environment: what scripts/recipe.sh names: SIZE, ROWS, SEEDS, STAGES, BEAMS, REPEATS, DATA, RUNS, DRY_RUN.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/recipe.sh"
settings tatoeba_en_fi en fi small
recipe
