#!/usr/bin/env bash
# XSum: one-sentence summaries of news, by ROUGE. A language model, its memory, ways to read long prompts.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/xsum/data/bin), RUNS (runs/xsum/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for xsum 512
evaluate() { rouge_of --cpu --beam 4 --max-len-b 60 -- "$@"; }
selfcp_recipe
