#!/usr/bin/env bash
# Film reviews: positive or negative? A language model, its memory, ways to read long reviews; accuracy.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/movie_reviews/data/bin), RUNS (runs/movie_reviews/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for movie_reviews 256
ROWS=${ROWS:-former latter concat truncate truncate_latter perplexity} # not full: some reviews have more tokens than the model has positions
evaluate() { choose_among "positive negative" "$@"; }
selfcp_recipe
