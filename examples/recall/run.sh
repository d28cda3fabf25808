#!/usr/bin/env bash
# Key-value recall: a language model, its memory, ways to read long prompts; accuracy by distance.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/recall/data/bin), RUNS (runs/recall/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for recall 32
LM+=(--dropout 0) # no two games are the same: there is nothing to learn by heart
evaluate() { rouge_of --cpu --beam 1 --max-len-b 6 -- "$@"; }
selfcp_recipe
[ -n "${STAGES:-}" ] || run python3 "$ROOT/examples/recall/by_distance.py" "$DATA/../raw/test.jsonl" "$RUNS"/*.seed*/generate.txt
