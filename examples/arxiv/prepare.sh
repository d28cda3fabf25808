#!/usr/bin/env bash
# Papers from arXiv with their abstracts (Cohan et al., 2018).
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with arxiv-dataset.zip, or its train.txt, val.txt and test.txt; without it the archive (3.6 GB) is downloaded
#           from the authors' mirror, https://archive.org/download/armancohan-long-summarization-paper-code
# Environment: OUT (runs/arxiv/data), SPM (a SentencePiece model; without it one is trained), VOCAB_SIZE (8000),
#   TEXT=FILE[:FILE...] (more text for the language model, a paragraph a line), MIRROR (another URL), EXPECTED
#   (scripts/text/fetch.sh), STAGES="raw binarise", DRY_RUN=1
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/prompts.sh"
url=${MIRROR:-https://archive.org/download/armancohan-long-summarization-paper-code}
out=${OUT:-$ROOT/runs/arxiv/data}

raw() {
  local new=$out/raw.tmp files=(arxiv-dataset.zip) name
  [ -z "$FROM" ] || [ ! -f "$FROM/train.txt" ] || files=(train.txt val.txt test.txt)
  for name in "${files[@]}"; do
    fetch "$url/$name" "$out/download/$name"
  done
  run rm -rf "$new"
  run python3 "$ROOT/examples/arxiv/records.py" "$new" "${files[@]/#/$out/download/}"
  run mv "$new" "$out/raw"
}

prompts_stages "$out" train valid test
