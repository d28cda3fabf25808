#!/usr/bin/env bash
# SQuAD v1.1 (Rajpurkar et al., 2016) as questions with a context and answers, for an encoder-decoder; with RAW_TEXT also
# plain text with the same dictionary to pre-train it on.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with train-v1.1.json and dev-v1.1.json; without it they are downloaded from
#           https://rajpurkar.github.io/SQuAD-explorer/dataset
# Environment: OUT (runs/squad/data), BPE_MERGES (8000), MAX_TOKENS (512), RAW_TEXT and WORKERS (scripts/text/preprocess_task.sh),
#   MIRROR (another URL), EXPECTED (scripts/text/fetch.sh), STAGES="raw tokenise segment dictionary text raw_text", DRY_RUN=1
#
# Sizes and sha256 sums are those of TensorFlow Datasets. We had no copies to compare them with.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
url=${MIRROR:-https://rajpurkar.github.io/SQuAD-explorer/dataset}
out=${OUT:-$ROOT/runs/squad/data}

raw() {
  local new=$out/raw.tmp train=train-v1.1.json dev=dev-v1.1.json
  fetch "$url/$train" "$out/download/$train" 30288272 3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955
  fetch "$url/$dev" "$out/download/$dev" 4854279 95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9
  run rm -rf "$new"
  run python3 "$ROOT/examples/squad/convert.py" "$out/download/$train" "$out/download/$dev" "$new"
  run mv "$new" "$out/raw"
}

stage raw "$out/raw" raw
MAX_TOKENS=${MAX_TOKENS:-512} KEEP_END="Answer:" \
  "$ROOT/scripts/text/preprocess_task.sh" "$out/raw" "${BPE_MERGES:-8000}" "$out"
