#!/usr/bin/env bash
# arXiv: abstracts of papers, by ROUGE. A language model, its memory, ways to read long prompts.
#
# Usage: run.sh           after prepare.sh
# Environment: DATA (runs/arxiv/data/bin), RUNS (runs/arxiv/selfcp), ROWS, RATIO, SEEDS, WINDOW, BACKBONE, STAGES, DRY_RUN: scripts/selfcp.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/selfcp.sh"
settings_for arxiv 512
evaluate() { rouge_of --cpu --beam 4 --max-len-b 250 -- "$@"; }
selfcp_recipe
