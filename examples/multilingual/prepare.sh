#!/usr/bin/env bash
# German, English and Finnish with one SentencePiece model, for a teacher of several languages: Multi30k (German-English)
# and Tatoeba (English-Finnish, divided by English sentence as in examples/tatoeba_en_fi).
#
# Usage: prepare.sh MULTI30K TATOEBA
#   MULTI30K  the data folder that examples/multi30k/prepare.sh made
#   TATOEBA   the one that examples/tatoeba_en_fi/prepare.sh made; their raw text is used
# Environment: OUT (runs/multilingual/data), PIECES (6000), STAGES="raw segment binarise", DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
[ $# = 2 ] || die "usage: prepare.sh MULTI30K TATOEBA, the data folders of these examples"
out=${OUT:-$ROOT/runs/multilingual/data} pieces=${PIECES:-6000}
declare -A raw=([de-en]=$1/raw [en-fi]=$2/raw)

check() {
  local pair
  for pair in "${!raw[@]}"; do
    [ -f "${raw[$pair]}/train.en" ] || die "${raw[$pair]}/train.en: no such file; run that example's prepare.sh first"
  done
  same_settings "$out" "$pieces"
}

copy_raw() {
  local pair split lang
  run rm -rf "$out/raw.tmp"
  run mkdir -p "$out/raw.tmp"
  for pair in de-en en-fi; do
    for split in train valid test; do
      for lang in ${pair/-/ }; do
        run cp "${raw[$pair]}/$split.$lang" "$out/raw.tmp/$split.$pair.$lang"
      done
    done
  done
  run mv "$out/raw.tmp" "$out/raw"
}

segment() {
  local file texts=()
  for file in de-en.de de-en.en en-fi.en en-fi.fi; do
    texts+=("$out/raw/train.$file")
  done
  run rm -rf "$out/pieces.tmp"
  run mkdir -p "$out/pieces.tmp"
  run python3 "$ROOT/examples/multilingual/segment.py" train "$out/spm" "$pieces" "${texts[@]}"
  for file in {train,valid,test}.{de-en.{de,en},en-fi.{en,fi}}; do
    write "$out/pieces.tmp/$file" -i "$out/raw/$file" python3 "$ROOT/examples/multilingual/segment.py" encode "$out/spm.model"
  done
  run mv "$out/pieces.tmp" "$out/pieces"
}

binarise() {
  local pair
  run rm -rf "$out/bin.tmp"
  run mkdir -p "$out/bin.tmp"
  run cp "$out/spm.model" "$out/bin.tmp"
  for pair in de-en en-fi; do
    run fairseq-preprocess --source-lang "${pair%-*}" --target-lang "${pair#*-}" --srcdict "$out/dict.txt" --joined-dictionary \
      --trainpref "$out/pieces/train.$pair" --validpref "$out/pieces/valid.$pair" --testpref "$out/pieces/test.$pair" \
      --destdir "$out/bin.tmp"
  done
  run mv "$out/bin.tmp" "$out/bin"
}

[ "${DRY_RUN:-0}" = 1 ] || check
stage raw "$out/raw" copy_raw
stage segment "$out/pieces" segment
stage binarise "$out/bin" binarise
