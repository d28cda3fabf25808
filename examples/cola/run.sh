#!/usr/bin/env bash
# CoLA with demonstrations in the prompt: a language model, its memory, ways to read them; accuracy.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe cola --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
