#!/usr/bin/env bash
# Multi30k task 1 (Elliott et al. 2016), German-English: fetches the raw text and makes it ready for training.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with {train,val,test_2016_flickr}.{de,en}.gz; without it they are downloaded from
#           https://github.com/multi30k/dataset (data/task1/raw)
# Environment: OUT (default runs/multi30k/data), SRC (de), TGT (en), BPE_MERGES (5000)
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
url=https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw
out=${OUT:-$ROOT/runs/multi30k/data} folder=${1:-}
[ -z "$folder" ] || [ -d "$folder" ] || die "$folder: no such folder"
mkdir -p "$out/raw"

# fetch NAME LANG SPLIT LINES: the plain text of one file, checked for its number of lines
fetch() {
  local gz=$1.$2.gz text=$out/raw/$3.$2
  [ ! -f "$text" ] || return 0
  if [ -n "$folder" ]; then
    [ -f "$folder/$gz" ] || die "$folder/$gz: no such file"
    cp "$folder/$gz" "$out/raw/$gz"
  else
    curl -fL --retry 3 -o "$out/raw/$gz" "$url/$gz" || die "$url/$gz: download failed; give a local folder instead"
  fi
  gunzip -c "$out/raw/$gz" >"$text.tmp" || die "$gz: damaged; fetch it again"
  [ "$(wc -l <"$text.tmp")" = "$4" ] || die "$gz: $(wc -l <"$text.tmp") lines, expected $4; fetch it again"
  mv "$text.tmp" "$text"
  rm -f "$out/raw/$gz"
}

for lang in de en; do
  fetch train $lang train 29000
  fetch val $lang valid 1014
  fetch test_2016_flickr $lang test 1000
done
"$ROOT/scripts/preprocess.sh" "$out/raw" "${SRC:-de}" "${TGT:-en}" "${BPE_MERGES:-5000}" "$out"
