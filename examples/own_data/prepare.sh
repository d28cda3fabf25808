#!/usr/bin/env bash
# Your own parallel text: checks it, splits off the sets that are missing, and makes it ready for training.
#
# Usage: prepare.sh FOLDER SRC TGT
#   FOLDER    with train.SRC and train.TGT, UTF-8, a sentence a line; if it has valid.* and test.*, these are taken, if not,
#             pairs of the training text (split.py)
#   SRC, TGT  the languages' codes, such as de en: the ends of the files' names
# Environment: OUT (runs/own_data/data), BPE_MERGES (8000), HELD_OUT (1000 pairs of a set that is split off), MAX_WORDS (200,
#   pairs with a longer side are left out), MAX_PIECES (250) and RATIO (3) (scripts/text/preprocess.sh),
#   STAGES="raw tokenise segment binarise", DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
[ $# = 3 ] || die "usage: prepare.sh FOLDER SRC TGT, such as prepare.sh my_texts de en"
folder=$1 src=$2 tgt=$3 out=${OUT:-$ROOT/runs/own_data/data}
[ -d "$folder" ] || die "$folder: no such folder"
for lang in "$src" "$tgt"; do
  [[ $lang =~ ^[A-Za-z0-9_]+$ ]] || die "$lang: give a language's code in letters and digits, such as de or zh_CN"
done
[ "$src" != "$tgt" ] || die "$src $tgt: give two languages"

# texts of FOLDER by content, with what decides how they are divided
fingerprint() {
  echo "$src $tgt ${HELD_OUT:-1000} ${MAX_WORDS:-200}" \
    "$(cd "$folder" && sha256sum {train,valid,test}.{"$src","$tgt"} 2>/dev/null | sha256sum | cut -c1-16)"
}

raw() {
  run rm -rf "$out/raw.tmp"
  run mkdir -p "$out/raw.tmp"
  run python3 "$ROOT/examples/own_data/split.py" "$folder" "$out/raw.tmp" "$src" "$tgt" \
    --held-out "${HELD_OUT:-1000}" --max-words "${MAX_WORDS:-200}"
  [ "${DRY_RUN:-0}" = 1 ] || fingerprint >"$out/raw.tmp/made_from"
  run mv "$out/raw.tmp" "$out/raw"
}

[ ! -d "$out/raw" ] || [ "$(cat "$out/raw/made_from")" = "$(fingerprint)" ] ||
  die "$out was made from other texts or settings; remove it, or give another folder by OUT=..."
stage raw "$out/raw" raw
MAX_PIECES=${MAX_PIECES:-250} RATIO=${RATIO:-3} \
  "$ROOT/scripts/text/preprocess.sh" "$out/raw" "$src" "$tgt" "${BPE_MERGES:-8000}" "$out"
