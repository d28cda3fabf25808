#!/usr/bin/env bash
# The demo: a student of the teacher that comes with the package, in several forms, and a report.
#
# Usage: demo.sh [OPTIONS]      of `pet-fairseq compress`
#   OUT=FOLDER   where everything goes (runs/start), within the repository for the browser page
# After an interruption, call it again.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cd "$ROOT"
out=${OUT:-runs/start}
mkdir -p "$out"
raw=$out/text/raw

stage teacher "$out/teacher" run pet-fairseq demo-teacher "$out/teacher"
stage text "$out/text" run pet-fairseq demo-data "$out/text"
run pet-fairseq compress "$out/teacher" --out "$out/small" --updates 6000 \
  --train-pair "$raw/train.fi" "$raw/train.en" --valid-pair "$raw/valid.fi" "$raw/valid.en" \
  --test-pair "$raw/test.fi" "$raw/test.en" --to ctranslate2 huggingface onnx "$@"

[ "${DRY_RUN:-0}" != 1 ] || exit 0
cat "$out/small/report.md"
echo "
The student in a web page: python3 -m http.server 8000, and then open
http://localhost:8000/examples/browser/?model=../../$out/small/onnx"
