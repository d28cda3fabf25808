#!/usr/bin/env bash
# Multi30k de->en: a teacher, PET students and their competitors; tests on test_2016_flickr.
#
# Usage: run.sh           after prepare.sh
# Environment: what scripts/recipe.sh names: SIZE, ROWS, SEEDS, STAGES, BEAMS, REPEATS, DATA, RUNS, DRY_RUN.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/recipe.sh"
settings multi30k de en small
recipe
