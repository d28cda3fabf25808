#!/usr/bin/env bash
# CICERO: answers to questions about dialogues, by ROUGE. A language model, its memory, ways to read long prompts.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/cicero/data/bin), RUNS (runs/cicero/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, BEAM (4), STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for cicero 64
evaluate() { rouge_of --cpu --beam "${BEAM:-4}" --max-len-b 30 -- "$@"; }
selfcp_recipe
