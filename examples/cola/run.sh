#!/usr/bin/env bash
# CoLA with demonstrations in the prompt: a language model, its memory, ways to read them; accuracy.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/cola/data/bin), RUNS (runs/cola/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for cola 128
evaluate() { choose_among "acceptable unacceptable" "$@"; }
selfcp_recipe
