#!/usr/bin/env bash
# Raw parallel text -> Moses tokens -> (cleaning) -> joint BPE -> fairseq's binary format.
#
# Usage: preprocess.sh RAW SRC TGT MERGES OUT
#   RAW     folder with train.SRC train.TGT valid.SRC valid.TGT test.SRC test.TGT
#   MERGES  number of joint BPE merges
#   OUT     gets tok/, bpe/, bpe.codes and bin/
# Environment, all off unless given:
#   MAX_TOKENS=175  drops training pairs with an empty side, a side of more tokens, or sides whose
#                   lengths differ by more than a factor of RATIO (1.5)
#   MAX_PIECES=250  the same for the training pairs after BPE
#   LOWERCASE=1     lowercases all three sets; the test set's raw text in lower case is in OUT/lower/
#   NO_DASH_SPLITS=1  leaves hyphens between letters alone, as Moses's tokenizer.perl without -a
#   TOKENISED="train valid"  these sets of RAW are Moses tokens already
#   JOINED_DICTIONARY=1  one dictionary for both languages, as models with --share-all-embeddings want it
#   SPLIT_VALID=23  every 23rd pair of the cleaned training set is the validation set; RAW needs none
#   WORKERS (2), STAGES="tokenise clean segment binarise", DRY_RUN=1
#
# Tokenises as `fairseq-interactive --tokenizer moses --bpe subword_nmt` does, with NO_DASH_SPLITS=1 as with
# --moses-no-dash-splits, so both see the same tokens.
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
[ $# = 5 ] || die "usage: preprocess.sh RAW SRC TGT MERGES OUT"
raw=$1 src=$2 tgt=$3 merges=$4 out=$5
workers=${WORKERS:-2} ratio=${RATIO:-1.5}
given=(train valid test)
[ -z "${SPLIT_VALID:-}" ] || given=(train test)
lower=()
[ "${LOWERCASE:-0}" = 0 ] || lower=(--lowercase)
tokeniser=(python3 "$ROOT/scripts/text/tokenise.py")
dashes=()
[ "${NO_DASH_SPLITS:-0}" = 0 ] || dashes=(--no-dash-splits)
cleaner=(python3 "$ROOT/scripts/text/clean.py")
joined=()
[ "${JOINED_DICTIONARY:-0}" = 0 ] || joined=(--joined-dictionary)
text=$out/tok
[ -z "${MAX_TOKENS:-}${SPLIT_VALID:-}${lower[*]}" ] || text=$out/clean

# stop if the inputs are not there, or OUT was begun with other settings
check() {
  local settings="$src $tgt $merges ${MAX_TOKENS:--} ${MAX_PIECES:--} $ratio ${LOWERCASE:-0} ${SPLIT_VALID:--}"
  settings+="${dashes[*]:+ ${dashes[*]}}${joined[*]:+ ${joined[*]}}${TOKENISED:+ tokenised: $TOKENISED}"
  for split in "${given[@]}"; do
    for lang in "$src" "$tgt"; do
      [ -f "$raw/$split.$lang" ] || die "$raw/$split.$lang: no such file"
    done
    same_lines "$raw/$split.$src" "$raw/$split.$tgt"
  done
  same_settings "$out" "$settings"
}

tokenise() {
  run mkdir -p "$out/tok"
  for lang in "$src" "$tgt"; do
    for split in "${given[@]}"; do
      if [[ " ${TOKENISED:-} " == *" $split "* ]]; then
        write "$out/tok/$split.$lang" cat "$raw/$split.$lang"
      else
        write "$out/tok/$split.$lang" -i "$raw/$split.$lang" \
          "${tokeniser[@]}" "$lang" --processes "$workers" "${dashes[@]}"
      fi
      same_lines "$raw/$split.$lang" "$out/tok/$split.$lang"
    done
  done
  run touch "$out/tok/done"
}

clean() {
  local limits=() valid=()
  [ -z "${MAX_TOKENS:-}" ] || limits=(--max-length "$MAX_TOKENS" --ratio "$ratio")
  [ -z "${SPLIT_VALID:-}" ] || valid=(--valid "$text/valid" --valid-every "$SPLIT_VALID")
  run mkdir -p "$text"
  run "${cleaner[@]}" "$out/tok/train" "$text/train" "$src" "$tgt" "${limits[@]}" "${lower[@]}" "${valid[@]}"
  for split in "${given[@]:1}"; do
    run "${cleaner[@]}" "$out/tok/$split" "$text/$split" "$src" "$tgt" "${lower[@]}"
  done
  if [ ${#lower[@]} != 0 ]; then
    run mkdir -p "$out/lower"
    run "${cleaner[@]}" "$raw/test" "$out/lower/test" "$src" "$tgt" "${lower[@]}"
  fi
  run touch "$text/done"
}

segment() {
  local train=train
  [ -z "${MAX_PIECES:-}" ] || train=uncleaned
  run mkdir -p "$out/bpe"
  write "$out/bpe/both" cat "$text/train.$src" "$text/train.$tgt"
  write "$out/bpe.codes" -i "$out/bpe/both" subword-nmt learn-bpe -s "$merges"
  run rm "$out/bpe/both"
  for lang in "$src" "$tgt"; do
    write "$out/bpe/$train.$lang" -i "$text/train.$lang" subword-nmt apply-bpe -c "$out/bpe.codes"
    for split in valid test; do
      write "$out/bpe/$split.$lang" -i "$text/$split.$lang" subword-nmt apply-bpe -c "$out/bpe.codes"
    done
  done
  if [ "$train" = uncleaned ]; then
    run "${cleaner[@]}" "$out/bpe/uncleaned" "$out/bpe/train" "$src" "$tgt" --max-length "$MAX_PIECES" --ratio "$ratio"
  fi
  run touch "$out/bpe/done"
}

binarise() {
  run rm -rf "$out/bin.tmp"
  run fairseq-preprocess --source-lang "$src" --target-lang "$tgt" --trainpref "$out/bpe/train" \
    --validpref "$out/bpe/valid" --testpref "$out/bpe/test" --destdir "$out/bin.tmp" --workers "$workers" \
    "${joined[@]}"
  run mv "$out/bin.tmp" "$out/bin"
}

[ "${DRY_RUN:-0}" = 1 ] || check
stage tokenise "$out/tok/done" tokenise
[ "$text" = "$out/tok" ] || stage clean "$text/done" clean
stage segment "$out/bpe/done" segment
stage binarise "$out/bin" binarise
