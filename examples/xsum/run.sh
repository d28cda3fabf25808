#!/usr/bin/env bash
# XSum: one-sentence summaries of news, by ROUGE. A language model, its memory, ways to read long prompts.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe xsum --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
