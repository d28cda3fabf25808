#!/usr/bin/env bash
# Plugins for the prompts of a language model: perplexity and time over the ratio.
#
# Usage: run.sh --model MODEL [OPTIONS]      after prepare.sh; options: pet-fairseq recipe language_model --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
