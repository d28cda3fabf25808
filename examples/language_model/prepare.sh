#!/usr/bin/env bash
# Plain text as prompts and what follows them, in the words of a language model from pet-fairseq import-hf.
#
# Usage: prepare.sh MODEL TRAIN TEST
#   MODEL        folder that pet-fairseq import-hf wrote
#   TRAIN, TEST  text, a paragraph a line, maybe gzipped; a line with a tab is a prompt and its response
# Environment: OUT (runs/language_model/MODEL/data), PROMPT_WORDS (200), RESPONSE_WORDS (60), WORKERS (2), STAGES="raw bin",
#   DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
model=${1:-} train=${2:-} test=${3:-}
[ -f "$model/tokenizer.json" ] || die "MODEL '$model': has no tokenizer.json; give a folder that pet-fairseq import-hf wrote"
for file in "$train" "$test"; do
  [ -f "$file" ] || die "'$file': no such file; give prepare.sh MODEL TRAIN TEST"
done
out=${OUT:-$ROOT/runs/language_model/$(basename "$(cd "$model" && pwd)")/data}
prompt=${PROMPT_WORDS:-200} response=${RESPONSE_WORDS:-60}
settings="$prompt $response $(realpath "$model" "$train" "$test" | paste -sd " ")"

raw() {
  run rm -rf "$out/raw.tmp"
  run python3 "$ROOT/examples/language_model/texts.py" "$model/tokenizer.json" "$train" "$test" "$out/raw.tmp" \
    --prompt-words "$prompt" --response-words "$response"
  write "$out/raw.tmp/settings" echo "$settings"
  run mv "$out/raw.tmp" "$out/raw"
}

binarise() {
  run rm -rf "$out/bin.tmp"
  run fairseq-preprocess --only-source --srcdict "$model/dict.txt" --trainpref "$out/raw/train" \
    --validpref "$out/raw/valid" --testpref "$out/raw/test" --destdir "$out/bin.tmp" --workers "${WORKERS:-2}"
  run mv "$out/bin.tmp" "$out/bin"
}

check_settings "$out" raw/settings "$settings"
stage raw "$out/raw" raw
stage bin "$out/bin" binarise
