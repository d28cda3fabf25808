#!/usr/bin/env bash
# Key-value recall: a language model, its memory, ways to read long prompts; accuracy.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe recall --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
