# Sourced by recipes: settings for two CPU cores. A teacher in half an hour, a student in minutes.
# All students but `speed` (and the wide one) have about 9.6% of the teacher's layer parameters.
COMMON=(--cpu --num-workers 0 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.0001
  --lr-scheduler polynomial_decay --warmup-updates 400
  --share-decoder-input-output-embed --encoder-normalize-before --decoder-normalize-before)

TEACHER=(--arch transformer --max-tokens 3000 --lr 2e-3 --dropout 0.3 --attention-dropout 0.1 --activation-dropout 0.1
  $(stacks 3 192 768 4) $(updates 3000))

STUDENT=(--max-tokens 2000 --lr 4e-3)
UPDATES=$(updates "${STUDENT_UPDATES:-3000}")
WARMUP=($(updates 300) --warmup-updates 100 --confident-correct auto --confident-wrong auto)
FINETUNE=($(updates 1000) --warmup-updates 50 --lr 2e-3)
# what suits the validation loss: text alone is overfitted without dropout, a teacher is not
GOLD=(--dropout 0.1)
SIMPLIFIED=(--dropout 0 --teacher-cache-mb 1000)
DISTILLATION=(--dropout 0 --teacher-cache-mb 1000 --distillation-alpha 0.9 --distillation-temperature 1)
PATIENCE=(--dropout 0 --distillation-alpha 0.9 --distillation-temperature 1)

PLAIN_ARCH=(--arch transformer $(stacks 2 88 154 4))
SPEED_ARCH=(--arch transformer $(stacks 4 88 176 4))
DEEP_ARCH=(--arch transformer $(stacks 6 72 126 4) --decoder-layers 1)
CAN_ARCH=(--arch can_transformer $(stacks 2 88 176 4))
PET_ARCH=(--arch pet_transformer $(stacks 4 88 176 4))
WIDE_ARCH=(--arch pet_transformer $(stacks 4 88 176 8) --encoder-head-dim 22 --decoder-head-dim 22)
HEADS=4

GENERATE+=(--cpu --num-workers 0 --max-tokens 3000)
