#!/usr/bin/env bash
# Questions and answers, sentences and classes -> Moses tokens -> joint BPE -> one dictionary -> fairseq's binary formats.
#
# Usage: preprocess_task.sh RAW MERGES OUT [INPUT...]
#   RAW     folder with {train,valid,test}.text and .answer; with INPUTs, such as sentence1 sentence2, also those and .label
#   MERGES  number of joint BPE merges, learnt on all training text
#   OUT     gets tok/, bpe/, bpe.codes, dict.txt and
#           text/      for --task translation --source-lang text --target-lang answer
#           classes/   for --task sentence_prediction: input0/ (input1/) label/; classes in the order of their names
#           raw_text/  for --task masked_lm and --task span_masked_lm
# Environment, all off unless given:
#   RAW_TEXT=FILE[:FILE...]  text for pre-training, a sentence or paragraph a line; every 100th line is for validation
#   MAX_TOKENS=512           drops training questions of more BPE pieces and cuts those of valid and test to that length
#   KEEP_END=TEXT            what a question that is cut still has to end with
#   BERT=FOLDER              made by `pet-fairseq import-bert`: its pieces and its dictionary instead of Moses and BPE
#   WORKERS (2), STAGES="tokenise segment dictionary text classes raw_text", DRY_RUN=1
#
# dict.txt ends in 100 sentinels: span_masked_lm takes the last words of its dictionary for them, the very last one first.
# That of a BERT has none.
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
[ $# -ge 3 ] || die "usage: preprocess_task.sh RAW MERGES OUT [INPUT...]"
raw=$1 merges=$2 out=$3
shift 3
inputs=("$@") workers=${WORKERS:-2} splits=(train valid test)
kinds=(text answer "${inputs[@]}")
tokeniser=(python3 "$ROOT/scripts/text/tokenise.py" en --processes "$workers")
[ -z "${BERT:-}" ] || tokeniser=(python3 "$ROOT/scripts/text/wordpiece.py" "$BERT/tokenizer.json")
IFS=: read -r -a raw_texts <<<"${RAW_TEXT:-}"
names=() training=("${kinds[@]/#/train.}")
for split in "${splits[@]}"; do
  names+=("${kinds[@]/#/$split.}")
done
if [ ${#raw_texts[@]} != 0 ]; then
  names+=(train.raw_text valid.raw_text)
  training+=(train.raw_text)
fi

# stop if the inputs are not there, or OUT was begun with other settings
check() {
  local settings="$merges ${RAW_TEXT:--} ${MAX_TOKENS:--} ${kinds[*]}${BERT:+ $BERT}" file needed=("${kinds[@]}")
  settings+="${KEEP_END:+ keep: $KEEP_END}"
  [ ${#inputs[@]} = 0 ] || needed+=(label)
  [ -z "${BERT:-}" ] || [ -f "$BERT/dict.txt" ] || die "BERT: $BERT/dict.txt: no such file; make it by import-bert"
  for file in "${raw_texts[@]}"; do
    [ -f "$file" ] || die "RAW_TEXT: $file: no such file"
  done
  for split in "${splits[@]}"; do
    for file in "${needed[@]/#/$raw/$split.}"; do
      [ -f "$file" ] || die "$file: no such file"
      same_lines "$raw/$split.text" "$file"
    done
  done
  same_settings "$out" "$settings"
}

tokenise() {
  local name from
  run mkdir -p "$out/tok"
  [ ${#raw_texts[@]} = 0 ] || run python3 "$ROOT/scripts/text/raw_text.py" "$out/plain" "${raw_texts[@]}"
  for name in "${names[@]}"; do
    from=$raw/$name
    [[ $name != *.raw_text ]] || from=$out/plain/$name
    write "$out/tok/$name" -i "$from" "${tokeniser[@]}"
    same_lines "$from" "$out/tok/$name"
  done
  run touch "$out/tok/done"
}

segment() {
  run mkdir -p "$out/bpe"
  if [ -n "${BERT:-}" ]; then
    run cp "${names[@]/#/$out/tok/}" "$out/bpe"
  else
    segment_by_bpe
  fi
  [ -z "${MAX_TOKENS:-}" ] || shorten
  run touch "$out/bpe/done"
}

segment_by_bpe() {
  local name
  write "$out/bpe/all" cat "${training[@]/#/$out/tok/}"
  write "$out/bpe.codes" -i "$out/bpe/all" subword-nmt learn-bpe -s "$merges"
  run rm "$out/bpe/all"
  for name in "${names[@]}"; do
    write "$out/bpe/$name" -i "$out/tok/$name" subword-nmt apply-bpe -c "$out/bpe.codes"
  done
}

shorten() {
  local command=(python3 "$ROOT/scripts/text/shorten.py")
  run "${command[@]}" "$out/bpe/train" "$MAX_TOKENS"
  for split in valid test; do
    run "${command[@]}" "$out/bpe/$split" "$MAX_TOKENS" --cut --keep-end "${KEEP_END:-}"
  done
}

dictionary() {
  if [ -n "${BERT:-}" ]; then
    # the tokenizer is for serve and predict, which look for it beside the data
    run cp "$BERT/tokenizer.json" "$out"
    write "$out/dict.txt" cat "$BERT/dict.txt"
    return 0
  fi
  run python3 "$ROOT/scripts/text/dictionary.py" "$out/dict.txt" "${training[@]/#/$out/bpe/}" --sentinels 100
}

text() {
  run rm -rf "$out/text.tmp"
  run fairseq-preprocess --source-lang text --target-lang answer --trainpref "$out/bpe/train" \
    --validpref "$out/bpe/valid" --testpref "$out/bpe/test" --srcdict "$out/dict.txt" --joined-dictionary \
    --destdir "$out/text.tmp" --workers "$workers"
  run mv "$out/text.tmp" "$out/text"
}

# one_side DICTIONARY FOLDER PREFIX SUFFIX SPLIT...: binary data of PREFIX/SPLIT.SUFFIX
one_side() {
  local words=$1 folder=$2 prefix=$3 suffix=$4 files=() split
  shift 4
  for split in "$@"; do
    files+=("--${split}pref" "$prefix/$split.$suffix")
  done
  run fairseq-preprocess --only-source --srcdict "$words" "${files[@]}" --destdir "$folder" --workers "$workers"
}

classes() {
  local new=$out/classes.tmp i
  run rm -rf "$new"
  for i in "${!inputs[@]}"; do
    one_side "$out/dict.txt" "$new/input$i" "$out/bpe" "${inputs[i]}" "${splits[@]}"
  done
  run python3 "$ROOT/scripts/text/dictionary.py" "$out/classes.txt" "$raw"/{train,valid,test}.label --by-name
  one_side "$out/classes.txt" "$new/label" "$raw" label "${splits[@]}"
  run mv "$new" "$out/classes"
}

raw_text() {
  run rm -rf "$out/raw_text.tmp"
  one_side "$out/dict.txt" "$out/raw_text.tmp" "$out/bpe" raw_text train valid
  run mv "$out/raw_text.tmp" "$out/raw_text"
}

[ "${DRY_RUN:-0}" = 1 ] || check
stage tokenise "$out/tok/done" tokenise
stage segment "$out/bpe/done" segment
stage dictionary "$out/dict.txt" dictionary
stage text "$out/text" text
[ ${#inputs[@]} = 0 ] || stage classes "$out/classes" classes
[ ${#raw_texts[@]} = 0 ] || stage raw_text "$out/raw_text" raw_text
