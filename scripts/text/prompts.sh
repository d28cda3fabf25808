# Sourced by the prepare.sh recipes of SelfCP, after common.sh: from OUT/raw, JSON lines, to OUT/bin, fairseq's binary data.
#
# Environment: SPM, VOCAB_SIZE, TEXT=FILE[:FILE...], see the recipes; TOKENIZER, CHAT_TEMPLATE, CUE: as of pet-fairseq prompts

# prompts_stages OUT SPLIT...: run the stages: the caller's function `raw` makes OUT/raw/SPLIT.jsonl, then
# pet-fairseq prompts makes OUT/bin
prompts_stages() {
  local out=$1 split word options texts files=() noted=()
  shift
  IFS=: read -r -a texts <<<"${TEXT:-}"
  for split in "$@"; do
    files+=("--$split" "$out/raw/$split.jsonl")
  done
  local words=(${TOKENIZER:+--tokenizer "$TOKENIZER"} ${VOCAB_SIZE:+--vocab-size "$VOCAB_SIZE"}
    ${CHAT_TEMPLATE:+--chat-template "$CHAT_TEMPLATE"} ${CUE:+--cue "$CUE"} ${TEXT:+--text "${texts[@]}"})
  [ -z "${SPM:-}" ] || [ ! -e "$out/bin" ] || cmp -s "$SPM" "$out/bin/spm.model" ||
    die "SPM=$SPM: $out/bin was made with another SentencePiece model; give another OUT or remove it"
  for word in "${words[@]}"; do
    [ ! -e "$word" ] || word=$(realpath "$word")
    noted+=("$word")
  done
  options=$(printf '%q ' "${noted[@]}") # a cue may have line breaks, an error is one line
  options=${options% }
  check_settings "$out" bin/settings "$options"
  stage raw "$out/raw" raw
  stage binarise "$out/bin" prompts_binarise
}

# reads the variables of prompts_stages
prompts_binarise() {
  run pet-fairseq prompts "${files[@]}" --out "$out/bin" ${SPM:+--spm "$SPM"} "${words[@]}"
  write "$out/bin/settings" echo "$options"
}
