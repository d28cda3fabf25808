#!/usr/bin/env bash
# A task of GLUE: a model, Variator's plugins for it and their competitors, compared on the test set.
#
# Usage: run.sh TASK      after prepare.sh TASK
# Environment: FORM (classes): classes, an encoder with a head of classes; text, an encoder-decoder that answers a question.
#   BERT: a folder made by `pet-fairseq import-bert` and given to prepare.sh, to start from in place of random weights; for classes
#   UPDATES (300): with BERT, of the plugins and their competitors on the task
#   DATA, RUNS: folders (runs/glue/TASK/data, runs/glue/TASK/FORM); ROWS, BACKBONE, PRETRAINED, STAGES, DRY_RUN: scripts/variator.sh.
# The sizes are for two CPU cores. A bigger model: BACKBONE=FILE PRETRAINED=FILE, trained on this DATA.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/variator.sh"
task=${1:-} form=${FORM:-classes}
declare -A CLASSES=([mnli]=3 [qnli]=2 [qqp]=2 [rte]=2 [sst2]=2 [mrpc]=2)
[ -n "${CLASSES[${task:-none}]:-}" ] || die "TASK '$task': give one of ${!CLASSES[*]}"
folder=${DATA:-$ROOT/runs/glue/$task/data}
RUNS=${RUNS:-$ROOT/runs/glue/$task/$form}
RAW=$folder/raw_text LENGTH=${LENGTH:-32}
[ "${DRY_RUN:-0}" = 1 ] || [ -d "$RAW" ] || RAW=

COMMON=(--cpu --num-workers 0 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.01 --clip-norm 1
  --lr-scheduler polynomial_decay)
SPANS="--tokens-per-sample 128 --sample-break-mode none"

# the model that prepare.sh took the words of; it needs less training, and smaller steps
start_from_bert() {
  [ "$form" = classes ] || die "BERT: is an encoder; give FORM=classes"
  [ -f "$BERT/model_options" ] || die "BERT: $BERT/model_options: no such file; make it by pet-fairseq import-bert"
  read -r -a ARCH <"$BERT/model_options"
  PRETRAINED=${PRETRAINED:-$BERT/checkpoint.pt}
  COMMON+=(--max-valid-steps 100) # there is only one validation, at the end
  MODEL_TASK=(--criterion sentence_prediction --max-tokens 1024 --lr 1e-4 --dropout 0.1 $(updates 500))
  PLUGINS_RAW=(--max-tokens 1024 --lr 1e-3 $(updates 200))
  PLUGINS_TASK=(--max-tokens 1024 --lr 1e-3 $(updates "${UPDATES:-300}"))
  WHOLE_TASK=(--max-tokens 1024 --lr 1e-4 $(updates "${UPDATES:-300}"))
}

case $form in
  classes)
    DATA=$folder/classes
    ARCH=(--arch roberta --encoder-layers 4 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024 --encoder-attention-heads 4)
    TASK=(--task sentence_prediction --num-classes "${CLASSES[$task]}" --init-token 0 --separator-token 2
      --max-positions 512 --shorten-method truncate --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
    RAW_TASK=(--task masked_lm $SPANS --mask-multiple-length 3)
    MODEL_RAW=(--criterion masked_lm --max-positions 512 --max-tokens 2048 --lr 1e-3 --dropout 0.1 $(updates 1500))
    MODEL_TASK=(--criterion sentence_prediction --max-tokens 2048 --lr 3e-4 --dropout 0.1 $(updates 1000))
    evaluate() { evaluate_classes "$1"; }
    ;;
  text)
    DATA=$folder/text
    ARCH=(--arch transformer --share-all-embeddings)
    for stack in encoder decoder; do
      ARCH+=(--$stack-layers 3 --$stack-embed-dim 256 --$stack-ffn-embed-dim 1024 --$stack-attention-heads 4
        --$stack-normalize-before)
    done
    TASK=(--task translation --source-lang text --target-lang answer)
    RAW_TASK=(--task span_masked_lm $SPANS)
    MODEL_RAW=(--criterion label_smoothed_cross_entropy --max-tokens 2048 --lr 1e-3 --dropout 0.1 $(updates 1500))
    MODEL_TASK=(--criterion label_smoothed_cross_entropy --max-tokens 2048 --lr 5e-4 --dropout 0.1 $(updates 1000))
    evaluate() {
      generate_answers "$1" --cpu --beam 1 --max-tokens 2048
      write "$1/result.json" pet-fairseq score accuracy "$1/generate.txt" "$folder/raw/test.answer"
    }
    ;;
  *) die "FORM=$form: give classes or text" ;;
esac
PLUGINS_RAW=(--max-tokens 2048 --lr 1e-3 $(updates 500))
PLUGINS_TASK=(--max-tokens 2048 --lr 1e-3 $(updates 1000))
WHOLE_TASK=(--max-tokens 2048 --lr 3e-4 $(updates 1000))
[ -z "${BERT:-}" ] || start_from_bert
variator_recipe
