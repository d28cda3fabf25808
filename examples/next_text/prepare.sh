#!/usr/bin/env bash
# Plain text as prompts and what follows them, for a language model from pet-fairseq import-hf.
#
# Usage: prepare.sh MODEL TRAIN TEST
#   MODEL        folder that pet-fairseq import-hf wrote
#   TRAIN, TEST  plain text, FILE or FILE:FILE...
# Environment: OUT (runs/next_text/data), PROMPT_TOKENS (144), RESPONSE_TOKENS (48), TEST_RECORDS (500), VALID_RECORDS (200),
#   STAGES="raw binarise", DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/text/prompts.sh"
model=${1:-} train=${2:-} test=${3:-}
TOKENIZER=$model/tokenizer.json
[ -f "$TOKENIZER" ] || die "MODEL '$model': has no tokenizer.json; give a folder that pet-fairseq import-hf wrote"
IFS=: read -r -a train_files <<<"$train"
IFS=: read -r -a test_files <<<"$test"
for file in "${train_files[@]:-}" "${test_files[@]:-}"; do
  [ -f "$file" ] || die "'$file': no such file; give prepare.sh MODEL TRAIN TEST"
done
out=${OUT:-$ROOT/runs/next_text/data}
prompt=${PROMPT_TOKENS:-144} response=${RESPONSE_TOKENS:-48}
tested=${TEST_RECORDS:-500} valid=${VALID_RECORDS:-200}
settings="$prompt $response $tested $valid $(realpath "$model" "${train_files[@]}" "${test_files[@]}" | paste -sd " ")"

# records OUT MOST FILE...: MOST records at most, all if it is empty
records() {
  local to=$1 most=$2
  shift 2
  run python3 "$ROOT/examples/next_text/records.py" "$TOKENIZER" "$to" ${most:+--most "$most"} \
    --prompt-tokens "$prompt" --response-tokens "$response" < <(cat "$@")
  [ "${DRY_RUN:-0}" = 1 ] || wait "$!" # ends here if cat failed
}

# the validation records are the last ones of the training text
raw() {
  local new=$out/raw.tmp
  run rm -rf "$new"
  run mkdir -p "$new"
  records "$new/all.jsonl" "" "${train_files[@]}"
  records "$new/test.jsonl" "$tested" "${test_files[@]}"
  [ "${DRY_RUN:-0}" = 1 ] || head -n "-$valid" "$new/all.jsonl" >"$new/train.jsonl"
  [ "${DRY_RUN:-0}" = 1 ] || tail -n "$valid" "$new/all.jsonl" >"$new/valid.jsonl"
  write "$new/settings" echo "$settings"
  run mv "$new" "$out/raw"
}

check_settings "$out" raw/settings "$settings"
prompts_stages "$out" train valid test
