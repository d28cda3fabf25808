#!/usr/bin/env bash
# SQuAD v1.1 as text to text: a model, Variator's plugins for it and their competitors, by exact match and F1.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe squad --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
