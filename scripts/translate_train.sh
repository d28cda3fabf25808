#!/usr/bin/env bash
# Sequence-level knowledge distillation (Kim and Rush, 2016): the teacher's translations of the
# training set take the place of its target side; valid and test sets stay as they are.
#
# Usage: translate_train.sh TEACHER BIN OUT OPTIONS...
#   TEACHER  checkpoint; BIN: made by fairseq-preprocess; OUT: gets text/ and bin/
#   OPTIONS  for fairseq-generate, with -s and -t; BEAM (5) is its beam
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -ge 3 ] || die "usage: translate_train.sh TEACHER BIN OUT OPTIONS..."
teacher=$1 bin=$2 out=$3
shift 3
src= tgt=
for ((i = 1; i < $#; i++)); do
  next=$((i + 1))
  case ${!i} in
    -s | --source-lang) src=${!next} ;;
    -t | --target-lang) tgt=${!next} ;;
  esac
done
[ -n "$src" ] && [ -n "$tgt" ] || die "give --source-lang and --target-lang among the options"
[ ! -e "$out/bin" ] || exit 0
[ "${DRY_RUN:-0}" = 1 ] || mkdir -p "$out/text"

# no --remove-bpe and no --tokenizer: the students train on the teacher's own pieces
options=()
while [ $# -gt 0 ]; do
  case $1 in
    --remove-bpe) ;;
    --tokenizer) shift ;;
    *) options+=("$1") ;;
  esac
  shift
done
[ -e "$out/train.txt" ] || write "$out/train.txt" fairseq-generate "$bin" --user-dir "$ROOT/pet_fairseq" \
  --path "$teacher" --gen-subset train --beam "${BEAM:-5}" --required-batch-size-multiple 1 "${options[@]}"
write "$out/text/train.$src" "$ROOT/scripts/text/lines.sh" "$out/train.txt" S
write "$out/text/train.$tgt" "$ROOT/scripts/text/lines.sh" "$out/train.txt" H
[ "${DRY_RUN:-0}" = 1 ] || rm -rf "$out/bin.tmp"
run fairseq-preprocess --source-lang "$src" --target-lang "$tgt" --trainpref "$out/text/train" \
  --srcdict "$bin/dict.$src.txt" --tgtdict "$bin/dict.$tgt.txt" --destdir "$out/bin.tmp" --workers 2
for file in "$bin"/{valid,test}.*; do
  run cp "$file" "$out/bin.tmp/"
done
run mv "$out/bin.tmp" "$out/bin"
