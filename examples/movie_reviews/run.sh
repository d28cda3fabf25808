#!/usr/bin/env bash
# Film reviews: positive or negative? A language model, its memory, ways to read long reviews; accuracy.
#
# Usage: run.sh [OPTIONS]      after prepare.sh; options: pet-fairseq recipe movie_reviews --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$here" "$@"
