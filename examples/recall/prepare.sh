#!/usr/bin/env bash
# Key-value recall: a game made here, in which what is asked for can stand anywhere in the prompt.
#
# Usage: prepare.sh
# Environment: OUT (runs/recall/data), PAIRS ("10 60"): pairs in a prompt, fewest and most; SEED (1), STAGES="raw binarise", DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
out=${OUT:-$ROOT/runs/recall/data}
pairs=${PAIRS:-10 60} seed=${SEED:-1}

raw() {
  run rm -rf "$out/raw.tmp"
  run python3 "$ROOT/examples/recall/make.py" "$out/raw.tmp" --pairs $pairs --seed "$seed"
  write "$out/raw.tmp/settings" echo "$pairs $seed"
  run mv "$out/raw.tmp" "$out/raw"
}

check_settings "$out" raw/settings "$pairs $seed"
stage raw "$out/raw" raw
# the language model learns from the short games and drills only
stage binarise "$out/bin" run pet-fairseq prompts --train "$out/raw/train.jsonl" --valid "$out/raw/valid.jsonl" \
  --test "$out/raw/test.jsonl" --text "$out/raw/text.txt" --no-lm-records --vocab-size 300 --out "$out/bin"
