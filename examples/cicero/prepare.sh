#!/usr/bin/env bash
# CICERO v2 (Shen et al., 2022): questions about dialogues.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with the release's data.zip, or val and test and maybe train, all .json, .jsonl or .jsonl.gz; without train a
#           part of val is for validation and the rest for training. Without FOLDER data.zip is downloaded from
#           https://github.com/declare-lab/CICERO/releases/download/v2.0.0
# Environment: OUT (runs/cicero/data), SPM (a SentencePiece model; without it one is trained), VOCAB_SIZE (8000),
#   TEXT=FILE[:FILE...] (more text for the language model, a paragraph a line), MIRROR (another URL), EXPECTED
#   (scripts/text/fetch.sh), STAGES="raw binarise", DRY_RUN=1
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/prompts.sh"
url=${MIRROR:-https://github.com/declare-lab/CICERO/releases/download/v2.0.0}
out=${OUT:-$ROOT/runs/cicero/data}

# which files to take: the archive, or those that FROM holds
choose() {
  local kind split
  files=(data.zip)
  [ -n "$FROM" ] && [ ! -f "$FROM/data.zip" ] || return 0
  for kind in json jsonl jsonl.gz; do
    if [ -f "$FROM/val.$kind" ] && [ -f "$FROM/test.$kind" ]; then
      files=("val.$kind" "test.$kind")
      [ ! -f "$FROM/train.$kind" ] || files+=("train.$kind")
      return 0
    fi
  done
  die "$FROM: has neither data.zip nor val and test as .json, .jsonl or .jsonl.gz"
}

raw() {
  local new=$out/raw.tmp files name
  choose
  for name in "${files[@]}"; do
    fetch "$url/$name" "$out/download/$name"
  done
  run rm -rf "$new"
  run python3 "$ROOT/examples/cicero/records.py" "$new" "${files[@]/#/$out/download/}"
  run mv "$new" "$out/raw"
}

prompts_stages "$out" train valid test
