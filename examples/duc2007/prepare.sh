#!/usr/bin/env bash
# The main task of DUC 2007: topics, their documents, summaries by people. It is a test set only, and NIST gives it out only
# to those who have signed its agreement, so it has to be here already.
#
# Usage: prepare.sh FOLDER
#   FOLDER  with duc2007_topics.sgml, the documents and mainEval/, unpacked: see README.md
# Environment: OUT (runs/duc2007/data), SPM (a SentencePiece model, required unless there is TEXT to train one on),
#   VOCAB_SIZE (8000), TEXT=FILE[:FILE...] (text for the language model, a paragraph a line), STAGES="raw binarise", DRY_RUN=1
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/prompts.sh"
out=${OUT:-$ROOT/runs/duc2007/data}
[ -n "$FROM" ] || die "FOLDER: missing; give the unpacked files of DUC 2007, see README.md"
[ -n "${SPM:-}${TOKENIZER:-}${TEXT:-}" ] || die "SPM: missing; give the SentencePiece model of the language model, its BIN/spm.model"

raw() {
  local new=$out/raw.tmp
  run rm -rf "$new"
  run mkdir -p "$out"
  run python3 "$ROOT/examples/duc2007/records.py" "$FROM" "$new"
  run mv "$new" "$out/raw"
}

prompts_stages "$out" test
