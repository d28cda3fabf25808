# Sourced by examples/*/run.sh: trains a model, plugins for it and their competitors, and compares them.
#
# A recipe sets the arrays below, the function `evaluate RUN` (writes RUN/result.json), and calls `variator_recipe`.
#   DATA, RUNS       folders: the task's binary data, and what is made
#   RAW              folder of binary text for pre-training; without it plugins are only adapted
#   COMMON           options of every training
#   TASK, RAW_TASK   --task and its options, for DATA and for RAW
#   ARCH             the model's --arch and sizes
#   MODEL_RAW, MODEL_TASK      criterion, length and learning rate of the model's pre-training and fine-tuning
#   PLUGINS_RAW, PLUGINS_TASK  length and learning rate of the plugins' pre-training and adaptation
#   WHOLE_TASK       the same for competitors whose weights are all trained
#   LENGTH           tokens of a sentence, for the table's costs
# Environment:
#   ROWS     rows of the table ("backbone k2 k4 k8 k16 k32"); `variator_rows` has all of them
#   BACKBONE checkpoint to use in place of training one; PRETRAINED: the same before fine-tuning
#   STAGES   only these: pretrained, names of rows, evaluate, table; DRY_RUN=1 prints the commands
# Finished stages are skipped, an interrupted training resumes.

. "$ROOT/scripts/training.sh"

declare -A PLUGIN_OPTIONS=(
  [k2]="--compression-ratio 2" [k4]="--compression-ratio 4" [k8]="--compression-ratio 8"
  [k16]="--compression-ratio 16" [k32]="--compression-ratio 32"
  [mean]="--compression-ratio 4 --compression mean"
  [copy]="--compression-ratio 4 --decompression copy"
  [attention]="--compression-ratio 4 --compression-site attention"
  [attention_kv]="--compression-ratio 4 --compression-site attention-kv"
)

# in the order of the table
variator_rows() {
  echo backbone k2 k4 k8 k16 k32 mean_copy mean copy no_pretraining no_adaptation lambda01 lambda05 attention attention_kv \
    token_pruning narrow_ffn
}

variator_recipe() {
  local row
  ROWS=${ROWS:-backbone k2 k4 k8 k16 k32}
  [ "${DRY_RUN:-0}" = 1 ] || [ -d "$DATA" ] || die "$DATA: no such folder; run prepare.sh first"
  [ -z "$RAW" ] || [ "${DRY_RUN:-0}" = 1 ] || [ -d "$RAW" ] || die "$RAW: no such folder; run prepare.sh with RAW_TEXT"
  for row in $ROWS; do
    [[ " $(variator_rows) " == *" $row "* ]] || die "ROWS: nothing is called $row; there are $(variator_rows)"
  done
  [ -z "$RAW${PRETRAINED:-}" ] || stage pretrained "$RUNS/pretrained/train.done" train_pretrained
  for row in $ROWS; do
    stage "$row" "$RUNS/$row/train.done" train_variator_row "$row"
  done
  stage evaluate "" evaluate_rows
  stage table "" make_table
}

best() { echo "$RUNS/$1/checkpoint_best.pt"; }

train_pretrained() {
  if [ -n "${PRETRAINED:-}" ]; then
    use_model "$RUNS/pretrained" "$PRETRAINED"
  else
    fit "$RUNS/pretrained" "$RAW" "${RAW_TASK[@]}" "${ARCH[@]}" "${MODEL_RAW[@]}"
  fi
}

train_backbone() {
  local start=()
  [ -z "$RAW${PRETRAINED:-}" ] || start=(--finetune-from-model "$(best pretrained)")
  if [ -n "${BACKBONE:-}" ]; then
    use_model "$RUNS/backbone" "$BACKBONE"
  else
    fit "$RUNS/backbone" "$DATA" "${TASK[@]}" "${ARCH[@]}" "${MODEL_TASK[@]}" "${start[@]}"
  fi
}

train_variator_row() {
  case $1 in
    backbone) train_backbone ;;
    mean_copy) without_training "$1" run pet-fairseq new-plugins --compression-ratio 4 --compression mean \
      --decompression copy --backbone-path "$(best backbone)" --out "$(best "$1")" ;;
    no_pretraining) adapt "$1" ${PLUGIN_OPTIONS[k4]} ;;
    no_adaptation)
      pretrain k4
      without_training "$1" move_plugins k4 "$(best "$1")"
      ;;
    lambda01) pretrained_plugins "$1" k4 --task-loss-weight 0.1 ;;
    lambda05) pretrained_plugins "$1" k4 --task-loss-weight 0.5 ;;
    token_pruning | narrow_ffn) fit "$RUNS/$1" "$DATA" "${TASK[@]}" --arch "$1" --compression-ratio 4 \
      --backbone-path "$(best backbone)" --criterion variator_distillation "${WHOLE_TASK[@]}" ;;
    *) pretrained_plugins "$1" "$1" ;;
  esac
}

# without_training ROW COMMAND...: a row whose checkpoint COMMAND writes
without_training() {
  local folder=$RUNS/$1
  shift
  run mkdir -p "$folder"
  "$@"
  run touch "$folder/train.done"
}

# pretrain KIND: plugins for the model before fine-tuning, on raw text
pretrain() {
  [ -n "$RAW" ] || die "plugins of kind $1: without RAW there is no pre-training; prepare with RAW_TEXT"
  fit "$RUNS/step1.$1" "$RAW" "${RAW_TASK[@]}" --arch variator --backbone-path "$(best pretrained)" \
    --criterion variator_distillation ${PLUGIN_OPTIONS[$1]} "${PLUGINS_RAW[@]}"
}

# move_plugins KIND FILE: the pre-trained ones as plugins of the fine-tuned model
move_plugins() {
  run pet-fairseq move-plugins "$(best "step1.$1")" --backbone-path "$(best backbone)" --out "$2"
}

# adapt ROW OPTIONS...: plugins for the fine-tuned model, on the task
adapt() {
  local folder=$RUNS/$1
  shift
  fit "$folder" "$DATA" "${TASK[@]}" --arch variator --backbone-path "$(best backbone)" \
    --criterion variator_distillation "${PLUGINS_TASK[@]}" "$@"
}

# pretrained_plugins ROW KIND OPTIONS...: both steps, or only the second without RAW
pretrained_plugins() {
  local row=$1 kind=$2 start=()
  shift 2
  if [ -n "$RAW" ]; then
    pretrain "$kind"
    move_plugins "$kind" "$RUNS/step1.$kind/moved.pt"
    start=(--finetune-from-model "$RUNS/step1.$kind/moved.pt")
  fi
  adapt "$row" ${PLUGIN_OPTIONS[$kind]} "${start[@]}" "$@"
}

evaluate_rows() {
  local row
  for row in $ROWS; do
    [ -s "$RUNS/$row/result.json" ] || evaluate "$RUNS/$row"
  done
}

make_table() {
  [ "${DRY_RUN:-0}" = 1 ] || variator_rows >"$RUNS/order.txt"
  run pet-fairseq plugins "$RUNS" --length "$LENGTH"
}

# --- how the recipes evaluate ---------------------------------------------------------------------

# evaluate_classes RUN
evaluate_classes() {
  write "$1/result.json" pet-fairseq score classes "$(best "$(basename "$1")")" "$DATA"
}

# generate_answers RUN OPTIONS...: the test set's answers in RUN/generate.txt
generate_answers() {
  local folder=$1
  shift
  write "$folder/generate.txt" fairseq-generate "$DATA" --user-dir "$ROOT/pet_fairseq" --path "$folder/checkpoint_best.pt" \
    --required-batch-size-multiple 1 "$@"
}
