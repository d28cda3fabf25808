# Sourced by recipes: the thesis's models, for one GPU.
COMMON=(--fp16 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.0001 --lr-scheduler inverse_sqrt
  --warmup-updates 4000 --share-decoder-input-output-embed)

TEACHER=(--arch transformer_iwslt_de_en --max-tokens 4096 --lr 5e-4 --dropout 0.3 --max-epoch 100 --patience 10)

STUDENT=(--max-tokens 4096 --lr 1e-3)
UPDATES="--max-epoch 200 --patience 15"
WARMUP=(--max-epoch 3)
FINETUNE=(--max-epoch 50 --patience 10 --warmup-updates 400 --lr 5e-4)
GOLD=(--dropout 0.1)
SIMPLIFIED=(--dropout 0.1 --teacher-cache-mb 20000)
DISTILLATION=(--dropout 0.1 --distillation-alpha 0.9 --distillation-temperature 1 --teacher-cache-mb 20000)
PATIENCE=(--dropout 0.1 --distillation-alpha 0.9 --distillation-temperature 1)

# 9.5% of transformer_iwslt_de_en's layer parameters; a data set may set other sizes
PLAIN_ARCH=(--arch transformer $(stacks 3 224 448 4))
SPEED_ARCH=(--arch transformer $(stacks 4 320 640 4) --decoder-embed-dim 240 --decoder-ffn-embed-dim 480)
DEEP_ARCH=(--arch deep_shallow_12_1)
CAN_ARCH=(--arch can_iwslt_de_en)
PET_ARCH=(--arch pet_transformer_iwslt_de_en)
WIDE_ARCH=(--arch pet_transformer_iwslt_de_en --encoder-attention-heads 8 --encoder-head-dim 80
  --decoder-attention-heads 8 --decoder-head-dim 60)
HEADS=4

GENERATE+=(--fp16 --max-tokens 12000)
