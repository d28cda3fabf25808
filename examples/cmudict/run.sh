#!/usr/bin/env bash
# CMUdict: from letters to phones, small models on a whole public data set.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe cmudict --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
