#!/usr/bin/env bash
# WMT'17 en->fi: PET at 23.3% of transformer_iwslt_de_en (thesis, Table 4).
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe wmt17_en_fi --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
