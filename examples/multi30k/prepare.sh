#!/usr/bin/env bash
# Multi30k task 1 (Elliott et al. 2016), German-English: fetches the raw text and makes it ready for training.
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with {train,val,test_2016_flickr}.{de,en}.gz; without it they are downloaded from
#           https://github.com/multi30k/dataset (data/task1/raw)
# Environment: OUT (runs/multi30k/data), SRC (de), TGT (en), BPE_MERGES (5000), MIRROR (another URL), EXPECTED (scripts/text/fetch.sh),
#   STAGES="raw tokenise segment binarise", DRY_RUN=1
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
url=${MIRROR:-https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw}
out=${OUT:-$ROOT/runs/multi30k/data}

# text NAME SPLIT LINES SHA256: one file; the checksum is of the text, so how it was compressed does not matter
text() {
  fetch "$url/$1.gz" "$out/download/$1.gz"
  write "$out/raw.tmp/$2" gunzip -c "$out/download/$1.gz"
  check_text "$1" "$out/raw.tmp/$2" "$3" "$4"
}

raw() {
  run rm -rf "$out/raw.tmp"
  run mkdir -p "$out/raw.tmp"
  text train.de train.de 29000 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
  text train.en train.en 29000 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
  text val.de valid.de 1014 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
  text val.en valid.en 1014 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
  text test_2016_flickr.de test.de 1000 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
  text test_2016_flickr.en test.en 1000 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
  run mv "$out/raw.tmp" "$out/raw"
}

stage raw "$out/raw" raw
"$ROOT/scripts/text/preprocess.sh" "$out/raw" "${SRC:-de}" "${TGT:-en}" "${BPE_MERGES:-5000}" "$out"
