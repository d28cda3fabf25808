#!/usr/bin/env bash
# A teacher and a PET student on your own parallel text, and the table that compares them.
#
# Usage: run.sh -s SRC -t TGT [OPTIONS]      after prepare.sh; options: pet-fairseq recipe own_data --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
