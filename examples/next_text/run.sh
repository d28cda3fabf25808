#!/usr/bin/env bash
# How a text goes on: memory of a pre-trained language model, ways to read long prompts; perplexity.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe next_text --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
