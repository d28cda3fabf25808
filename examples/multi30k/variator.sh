#!/usr/bin/env bash
# Variator's plugins for a trained Multi30k model, and their competitors, by BLEU on test_2016_flickr.
#
# Usage: variator.sh [OPTIONS]      after prepare.sh and run.sh; options: pet-fairseq recipe multi30k_variator --help
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH="$here/../../.venv/bin:$PATH" exec pet-fairseq recipe "$(dirname "$here")/multi30k_variator" "$@"
