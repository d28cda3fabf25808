#!/usr/bin/env bash
# A task of GLUE: a model, Variator's plugins for it and their competitors, compared on the test set.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe glue --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
