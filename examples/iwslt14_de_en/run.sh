#!/usr/bin/env bash
# IWSLT'14 de->en: PET at 9.5% of transformer_iwslt_de_en (thesis, Table 4).
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe iwslt14_de_en --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
