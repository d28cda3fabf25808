# Sourced by examples/*/run.sh: trains a language model and SelfCP's memory for it, and compares ways to read long prompts.
#
# A recipe sets the arrays below, the function `evaluate CHECKPOINT STRATEGY RATIO FOLDER` (writes FOLDER/result.json), and calls
# `selfcp_recipe`.
#   DATA, RUNS       folders: what pet-fairseq prompts made, and what is made here
#   COMMON           options of every training
#   LM, LM_ARCH      criterion, length and learning rate of the language model; its --arch and sizes
#   MEMORY           window, length and learning rate of the memory tag and connector
# Environment:
#   ROWS     ways to read a prompt ("former latter concat truncate perplexity full"); `selfcp_rows` has all of them; with a
#            number behind it another ratio than RATIO: former4
#   RATIO    12; SEEDS ("1"); BACKBONE: a checkpoint to use in place of training one
#   STAGES   only these: backbone, memory, names of rows, table; DRY_RUN=1 prints the commands
# Finished stages are skipped, an interrupted training resumes.

selfcp_rows() {
  echo full former latter concat recursive truncate perplexity
}

selfcp_recipe() {
  local row seed
  ROWS=${ROWS:-full former latter concat truncate perplexity} RATIO=${RATIO:-12}
  [ "${DRY_RUN:-0}" = 1 ] || [ -d "$DATA" ] || die "$DATA: no such folder; run prepare.sh first"
  for row in $ROWS; do
    [[ " $(selfcp_rows) " == *" $(strategy_of "$row") "* ]] || die "ROWS: nothing is called $row; there are $(selfcp_rows)"
  done
  stage backbone "$RUNS/backbone/train.done" train_backbone
  for seed in ${SEEDS:-1}; do
    stage memory "$RUNS/memory.seed$seed/train.done" train_memory memory "$seed" auto
    for row in $ROWS; do
      [ "$(strategy_of "$row")" != recursive ] ||
        stage "$row" "$RUNS/recursive_memory.seed$seed/train.done" train_memory recursive_memory "$seed" recursive
      stage "$row" "$RUNS/$row.seed$seed/result.json" answer_row "$row" "$seed"
    done
  done
  stage table "" run "$ROOT/scripts/seeds_table.py" "$RUNS" ${ROWS}
}

# strategy_of ROW, ratio_of ROW: former4 -> former, 4
strategy_of() { echo "${1%%[0-9]*}"; }
ratio_of() {
  local ratio=${1#"$(strategy_of "$1")"}
  echo "${ratio:-$RATIO}"
}

# fit RUN BIN OPTIONS...
fit() {
  local folder=$1 bin=$2
  shift 2
  "$ROOT/scripts/train.sh" "$folder" "$bin" "${COMMON[@]}" "$@"
}

train_backbone() {
  if [ -n "${BACKBONE:-}" ]; then
    [ -f "$BACKBONE" ] || die "$BACKBONE: no such file"
    run mkdir -p "$RUNS/backbone"
    run ln -sf "$(realpath "$BACKBONE")" "$RUNS/backbone/checkpoint_best.pt"
    run touch "$RUNS/backbone/train.done"
  else
    fit "$RUNS/backbone" "$DATA/lm" --task language_modeling "${LM_ARCH[@]}" "${LM[@]}"
  fi
}

# train_memory NAME SEED STRATEGY
train_memory() {
  fit "$RUNS/$1.seed$2" "$DATA" --task selfcp --arch selfcp --criterion selfcp_lm --seed "$2" --prompt-strategy "$3" \
    --backbone-path "$RUNS/backbone/checkpoint_best.pt" "${MEMORY[@]}"
}

# answer_row ROW SEED
answer_row() {
  local strategy ratio trained=memory
  strategy=$(strategy_of "$1") ratio=$(ratio_of "$1")
  [ "$strategy" != recursive ] || trained=recursive_memory
  run mkdir -p "$RUNS/$1.seed$2"
  evaluate "$RUNS/$trained.seed$2/checkpoint_best.pt" "$strategy" "$ratio" "$RUNS/$1.seed$2"
}

# --- how the recipes evaluate ---------------------------------------------------------------------

# choose_among "A B" CHECKPOINT STRATEGY RATIO FOLDER: closed-ended, by the candidates' losses
choose_among() {
  run pet-fairseq choose --path "$2" --data "$DATA" --candidates $1 --prompt-strategy "$3" --memory-ratio "$4" \
    --out "$5/result.json"
}

# rouge_of OPTIONS -- CHECKPOINT STRATEGY RATIO FOLDER: generated responses by ROUGE
rouge_of() {
  local options=()
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  write "$5/generate.txt" fairseq-generate "$DATA" --user-dir "$ROOT/pet_fairseq" --task selfcp --path "$2" \
    --model-overrides "{'prompt_strategy': '$3', 'memory_ratio': $4}" --bpe sentencepiece \
    --sentencepiece-model "$DATA/spm.model" --required-batch-size-multiple 1 "${options[@]}"
  write "$5/result.json" "$ROOT/scripts/rouge.py" "$5/generate.txt"
}
