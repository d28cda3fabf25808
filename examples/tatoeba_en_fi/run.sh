#!/usr/bin/env bash
# Tatoeba en->fi: the stand-in for WMT'17 en->fi that two CPU cores can train.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe tatoeba_en_fi --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
