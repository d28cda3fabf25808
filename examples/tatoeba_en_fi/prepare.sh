#!/usr/bin/env bash
# Tatoeba English-Finnish, through manythings.org: short everyday sentences, divided by English sentence (split.py).
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with fin-eng.zip, or fin.txt.gz (the list in that archive, gzipped); without it the archive is downloaded
#           from https://www.manythings.org/anki
# Environment: OUT (runs/tatoeba_en_fi/data), SRC (en), TGT (fi), BPE_MERGES (5000), MIRROR (another URL),
#   EXPECTED (scripts/text/fetch.sh), STAGES="raw tokenise segment binarise", DRY_RUN=1
#
# The list grows, so a download has no fixed size or checksum: it is read to its end, has to have 50,000 pairs or more,
# and split.py says whether it is the version with 59,490 pairs that the project's results were measured on.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
url=${MIRROR:-https://www.manythings.org/anki}
out=${OUT:-$ROOT/runs/tatoeba_en_fi/data}
pairs=fin-eng.zip
[ -z "$FROM" ] || [ ! -f "$FROM/fin.txt.gz" ] || pairs=fin.txt.gz

raw() {
  local new=$out/raw.tmp least _
  read -r least _ < <(expected fin.txt 50000 -)
  fetch "$url/$pairs" "$out/download/$pairs"
  run rm -rf "$new"
  run mkdir -p "$new"
  run python3 "$ROOT/examples/tatoeba_en_fi/split.py" "$out/download/$pairs" "$new" --at-least "$least"
  run mv "$new" "$out/raw"
}

stage raw "$out/raw" raw
"$ROOT/scripts/text/preprocess.sh" "$out/raw" "${SRC:-en}" "${TGT:-fi}" "${BPE_MERGES:-5000}" "$out"
