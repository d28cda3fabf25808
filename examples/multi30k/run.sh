#!/usr/bin/env bash
# Multi30k de->en: teacher, a student of the PET student's size trained from scratch, the PET student;
# translations of test_2016_flickr with beams 1 and 5; report with table and plots.
#
# Usage: run.sh           after prepare.sh
# Environment: SIZE=small (two CPU cores, about an hour) or full (transformer_iwslt_de_en teacher, one GPU);
#   DATA (runs/multi30k/data), RUNS (runs/multi30k/$SIZE), SRC, TGT, SEED, STAGES="teacher scratch pet
#   generate report", DRY_RUN=1. Finished stages are skipped, an interrupted training resumes.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
. "$ROOT/scripts/compare.sh"
SIZE=${SIZE:-small} SRC=${SRC:-de} TGT=${TGT:-en}
DATA=${DATA:-$ROOT/runs/multi30k/data} RUNS=${RUNS:-$ROOT/runs/multi30k/$SIZE}
[ -d "$DATA/bin" ] || die "$DATA/bin: no such folder; run prepare.sh first"

COMMON=(--source-lang "$SRC" --target-lang "$TGT" --seed "${SEED:-1}" --optimizer adam
  --adam-betas '(0.9, 0.98)' --weight-decay 0.0001 --lr-scheduler inverse_sqrt --label-smoothing 0.1
  --share-decoder-input-output-embed)
GENERATE=(--source-lang "$SRC" --target-lang "$TGT" --remove-bpe --tokenizer moses)

case $SIZE in
  small)
    device=(--cpu --num-workers 0 --max-tokens 3000)
    TEACHER=(--arch transformer --criterion label_smoothed_cross_entropy --dropout 0.3 --lr 2e-3
      --warmup-updates 400 --max-update 3000 --encoder-layers 3 --decoder-layers 3
      --encoder-embed-dim 192 --encoder-ffn-embed-dim 768 --encoder-attention-heads 4
      --decoder-embed-dim 192 --decoder-ffn-embed-dim 768 --decoder-attention-heads 4)
    student=(--dropout 0.1 --lr 3e-3 --warmup-updates 400 --max-update 4000
      --encoder-attention-heads 4 --decoder-attention-heads 4 --encoder-embed-dim 88 --decoder-embed-dim 88)
    SCRATCH=(--arch transformer --criterion label_smoothed_cross_entropy "${student[@]}"
      --encoder-layers 2 --decoder-layers 2 --encoder-ffn-embed-dim 154 --decoder-ffn-embed-dim 154)
    PET=(--arch pet_transformer "${student[@]}" --distillation-alpha 0.9 --distillation-temperature 1
      --encoder-layers 4 --decoder-layers 4 --encoder-ffn-embed-dim 176 --decoder-ffn-embed-dim 176)
    GENERATE+=(--cpu --num-workers 0 --max-tokens 3000)
    ;;
  full)
    device=(--max-tokens 8192 --fp16)
    TEACHER=(--arch transformer_iwslt_de_en --criterion label_smoothed_cross_entropy --dropout 0.3
      --lr 5e-4 --warmup-updates 2000 --max-epoch 40 --patience 8)
    student=(--dropout 0.1 --lr 1e-3 --warmup-updates 2000 --max-epoch 80 --patience 15)
    SCRATCH=(--arch transformer --criterion label_smoothed_cross_entropy "${student[@]}"
      --encoder-layers 3 --decoder-layers 3 --encoder-attention-heads 4 --decoder-attention-heads 4
      --encoder-embed-dim 224 --encoder-ffn-embed-dim 448 --decoder-embed-dim 224 --decoder-ffn-embed-dim 448)
    PET=(--arch pet_transformer_iwslt_de_en "${student[@]}" --distillation-alpha 0.9
      --distillation-temperature 1)
    GENERATE+=(--max-tokens 12000 --fp16)
    ;;
  *) die "SIZE=$SIZE: give small or full" ;;
esac
COMMON+=("${device[@]}")
declare -A TITLES=([teacher]=Teacher [scratch]="Same size, from scratch" [pet]="PET student")
compare "$RUNS" "$DATA/bin" "$DATA/raw/test.$TGT"
