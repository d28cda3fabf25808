# Sourced by examples/*/run.sh: trains a language model and SelfCP's memory for it, and compares ways to read long prompts.
#
# A recipe sets the arrays below, the function `evaluate CHECKPOINT STRATEGY RATIO FOLDER` (writes FOLDER/result.json), and calls
# `selfcp_recipe`.
#   DATA, RUNS       folders: what pet-fairseq prompts made, and what is made here
#   COMMON           options of every training
#   LM, LM_ARCH      criterion, length and learning rate of the language model; its --arch and sizes
#   MEMORY           window, length and learning rate of the memory tag and connector
# Environment:
#   ROWS     ways to read a prompt ("full former latter concat truncate truncate_latter perplexity"); `selfcp_rows` has all
#            of them; with a number behind it another ratio than RATIO: former4
#   WINDOW, LM_UPDATES, MEMORY_UPDATES: other settings than the recipe's
#   RATIO    12; SEEDS ("1"); BACKBONE: a checkpoint to use in place of training one; LM_FROM: one to begin that training with
#   STAGES   only these: backbone, memory, names of rows, table; DRY_RUN=1 prints the commands
# Finished stages are skipped, an interrupted training resumes.

. "$ROOT/scripts/training.sh"

selfcp_rows() {
  echo full former latter concat recursive truncate truncate_latter perplexity
}

selfcp_recipe() {
  local row seed
  ROWS=${ROWS:-full former latter concat truncate truncate_latter perplexity} RATIO=${RATIO:-12}
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
  stage table "" run pet-fairseq score table "$RUNS" ${ROWS}
}

# settings_for NAME WINDOW: what the recipes share; sizes for two CPU cores, a GPU wants more of everything
settings_for() {
  DATA=${DATA:-$ROOT/runs/$1/data/bin} RUNS=${RUNS:-$ROOT/runs/$1/selfcp}
  COMMON=(--cpu --num-workers 0 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1
    --lr-scheduler polynomial_decay)
  LM_ARCH=(--arch transformer_lm --decoder-layers 4 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1024
    --decoder-attention-heads 4 --decoder-normalize-before --share-decoder-input-output-embed --max-target-positions 2048)
  LM=(--criterion cross_entropy --sample-break-mode eos --tokens-per-sample 512 --max-tokens 2048 --lr 1e-3 --dropout 0.1
    $(updates "${LM_UPDATES:-4000}"))
  MEMORY=(--window "${WINDOW:-$2}" --max-tokens 4096 --lr 1e-3 $(updates "${MEMORY_UPDATES:-1000}"))
}

# strategy_of ROW, ratio_of ROW: former4 -> former, 4
strategy_of() { echo "${1%%[0-9]*}"; }
ratio_of() {
  local ratio=${1#"$(strategy_of "$1")"}
  echo "${ratio:-$RATIO}"
}

train_backbone() {
  if [ -n "${BACKBONE:-}" ]; then
    use_model "$RUNS/backbone" "$BACKBONE"
  else
    [ -z "${LM_FROM:-}" ] || [ -f "$LM_FROM" ] || die "LM_FROM: $LM_FROM: no such file"
    fit "$RUNS/backbone" "$DATA/lm" --task language_modeling "${LM_ARCH[@]}" "${LM[@]}" ${LM_FROM:+--finetune-from-model "$LM_FROM"}
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

# rouge_of OPTIONS -- CHECKPOINT STRATEGY RATIO FOLDER: generated responses by ROUGE; perplexity of the given ones
rouge_of() {
  local options=() overrides
  while [ "$1" != -- ]; do
    options+=("$1")
    shift
  done
  overrides="{'prompt_strategy': '$3', 'memory_ratio': $4}"
  write "$5/generate.txt" fairseq-generate "$DATA" --user-dir "$ROOT/pet_fairseq" --task selfcp --path "$2" \
    --model-overrides "$overrides" --bpe sentencepiece --sentencepiece-model "$DATA/spm.model" \
    --required-batch-size-multiple 1 "${options[@]}"
  write "$5/validate.txt" fairseq-validate "$DATA" --user-dir "$ROOT/pet_fairseq" --task selfcp --path "$2" --cpu \
    --model-overrides "$overrides" --valid-subset test --max-tokens 8000 --required-batch-size-multiple 1
  write "$5/result.json" pet-fairseq score rouge "$5/generate.txt" --validation "$5/validate.txt"
}
