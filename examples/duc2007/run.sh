#!/usr/bin/env bash
# DUC 2007: summaries of many documents for a topic, by ROUGE. A language model, its memory, ways to read long prompts.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/duc2007/data/bin), RUNS (runs/duc2007/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for duc2007 512
evaluate() { rouge_of --cpu --beam 4 --max-len-b 250 -- "$@"; }
selfcp_recipe
