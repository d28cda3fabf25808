#!/usr/bin/env bash
# IWSLT'14 English-German: the German-English recipe with the languages exchanged and the same downloads.
#
# Usage: prepare.sh [FOLDER]; FOLDER and environment as examples/iwslt14_de_en/prepare.sh,
#   with OUT (runs/iwslt14_en_de/data) and DOWNLOADS (runs/iwslt14_de_en/data/download)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export SRC=en TGT=de OUT=${OUT:-$root/runs/iwslt14_en_de/data}
export DOWNLOADS=${DOWNLOADS:-$root/runs/iwslt14_de_en/data/download}
exec "$root/examples/iwslt14_de_en/prepare.sh" "$@"
