#!/usr/bin/env bash
# CoLA (Warstadt et al., 2019) with solved examples as the prompt (in-context learning).
#
# Usage: prepare.sh [FOLDER]
#   FOLDER  with GLUE's CoLA.zip, or its train.tsv and dev.tsv, or the authors' cola_public_1.1.zip or cola_public.zip;
#           without it GLUE's archive is downloaded from https://dl.fbaipublicfiles.com/glue/data
# Environment: OUT (runs/cola/data), SHOTS (64), SPM (a SentencePiece model; without it one is trained), VOCAB_SIZE (8000),
#   TEXT=FILE[:FILE...] (more text for the language model, a paragraph a line), MIRROR (another URL), EXPECTED
#   (scripts/text/fetch.sh), STAGES="raw binarise", DRY_RUN=1
#
# Size and sha256 sum of GLUE's archive are those that Hugging Face's datasets library publishes. We had no copy to
# compare them with.
FROM=${1:-}
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/fetch.sh"
. "$ROOT/scripts/text/prompts.sh"
url=${MIRROR:-https://dl.fbaipublicfiles.com/glue/data}
sum=f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff
out=${OUT:-$ROOT/runs/cola/data}
shots=${SHOTS:-64}

# which files to take: GLUE's archive, which is what a download brings, or others that FROM holds
choose() {
  local name
  files=(CoLA.zip) known=(376971 "$sum")
  [ -n "$FROM" ] || return 0
  if [ -f "$FROM/train.tsv" ]; then
    files=(train.tsv dev.tsv) known=()
    return 0
  fi
  for name in CoLA.zip cola_public_1.1.zip cola_public.zip; do
    [ -f "$FROM/$name" ] || continue
    files=("$name")
    [ "$name" = CoLA.zip ] || known=()
    return 0
  done
  die "$FROM: has neither CoLA.zip, cola_public_1.1.zip, cola_public.zip nor train.tsv"
}

raw() {
  local new=$out/raw.tmp files known name
  choose
  for name in "${files[@]}"; do
    fetch "$url/$name" "$out/download/$name" "${known[@]}"
  done
  run rm -rf "$new"
  run python3 "$ROOT/examples/cola/records.py" "$new" "${files[@]/#/$out/download/}" --shots "$shots"
  write "$new/shots" echo "$shots"
  run mv "$new" "$out/raw"
}

[ ! -f "$out/raw/shots" ] || [ "$(cat "$out/raw/shots")" = "$shots" ] ||
  die "SHOTS=$shots: $out has prompts of $(cat "$out/raw/shots") examples; give another OUT"
prompts_stages "$out" train valid test
