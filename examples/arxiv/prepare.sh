#!/usr/bin/env bash
# Papers from arXiv with their abstracts (Cohan et al., 2018).
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with arxiv-dataset.zip, or its train.txt, val.txt and test.txt; without it the archive (3.6 GB) is downloaded
#           from the authors' mirror, https://archive.org/download/armancohan-long-summarization-paper-code
# Environment: OUT (runs/arxiv/data), SPM (a SentencePiece model; without it one is trained), VOCAB_SIZE (8000),
#   TEXT=FILE[:FILE...] (more text for the language model, a paragraph a line), MIRROR (another URL), EXPECTED
#   (scripts/fetch.sh), STAGES="raw binarise", DRY_RUN=1
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/fetch.sh"
url=${MIRROR:-https://archive.org/download/armancohan-long-summarization-paper-code}
out=${OUT:-$ROOT/runs/arxiv/data}
IFS=: read -r -a texts <<<"${TEXT:-}"

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

[ -z "${SPM:-}" ] || [ ! -e "$out/bin" ] || cmp -s "$SPM" "$out/bin/spm.model" ||
  die "SPM=$SPM: $out/bin was made with another SentencePiece model; give another OUT or remove it"
stage raw "$out/raw" raw
stage binarise "$out/bin" run pet-fairseq prompts --train "$out/raw/train.jsonl" --valid "$out/raw/valid.jsonl" \
  --test "$out/raw/test.jsonl" --out "$out/bin" ${SPM:+--spm "$SPM"} ${VOCAB_SIZE:+--vocab-size "$VOCAB_SIZE"} \
  ${TEXT:+--text "${texts[@]}"}
