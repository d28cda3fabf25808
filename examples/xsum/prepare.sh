#!/usr/bin/env bash
# XSum (Narayan et al., 2018): articles of the BBC to summarise in a sentence.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with XSUM-EMNLP18-Summary-Data-Original.tar.gz and XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json; without it they are
#           downloaded from https://huggingface.co/datasets/EdinburghNLP/xsum/resolve/main/data (the authors' archive) and
#           https://raw.githubusercontent.com/EdinburghNLP/XSum/master/XSum-Dataset
# Environment: OUT (runs/xsum/data), SPM (a SentencePiece model; without it one is trained), VOCAB_SIZE (8000),
#   TEXT=FILE[:FILE...] (more text for the language model, a paragraph a line), MIRROR (another URL), EXPECTED
#   (scripts/text/fetch.sh), STAGES="raw binarise", DRY_RUN=1
#
# Sizes and sha256 sums are those that Hugging Face's datasets library publishes. We had no copies to compare them with.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/prompts.sh"
authors=${MIRROR:-https://huggingface.co/datasets/EdinburghNLP/xsum/resolve/main/data}
splits=${MIRROR:-https://raw.githubusercontent.com/EdinburghNLP/XSum/master/XSum-Dataset}
out=${OUT:-$ROOT/runs/xsum/data}

raw() {
  local new=$out/raw.tmp articles=XSUM-EMNLP18-Summary-Data-Original.tar.gz
  local ids=XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json
  fetch "$authors/$articles" "$out/download/$articles" 254582292 \
    10b48aa187fc9c904b30f76ca97e2da0de8d3a1238acc26acadef93e2001af90
  fetch "$splits/$ids" "$out/download/$ids" 2720574 9c0c5d8f048a90bd68b19a34e4c30577ed270d3247b2119fa06a04ef46292068
  run rm -rf "$new"
  run python3 "$ROOT/examples/xsum/records.py" "$out/download/$articles" "$out/download/$ids" "$new"
  run mv "$new" "$out/raw"
}

prompts_stages "$out" train valid test
