#!/usr/bin/env bash
# Multi30k de->en: a teacher, PET students and their competitors; tests on test_2016_flickr.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe multi30k --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
