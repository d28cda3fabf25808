# Sourced by recipes: the models of full.sh in a few minutes each on one large GPU, with bfloat16 and a
# learning rate that falls to 0 over a fixed number of updates. For small data sets such as Multi30k.
. "$ROOT/scripts/sizes/full.sh"
export BF16=1
COMMON=(--optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.0001 --lr-scheduler polynomial_decay
  --warmup-updates 500 --share-decoder-input-output-embed --encoder-normalize-before --decoder-normalize-before)
TEACHER=(--arch transformer_iwslt_de_en --max-tokens 8192 --lr 1e-3 --dropout 0.3 $(updates 2500))
STUDENT=(--max-tokens 8192 --lr 2e-3)
UPDATES=$(updates "${STUDENT_UPDATES:-2500}")
WARMUP=($(updates 250) --warmup-updates 100 --confident-correct auto --confident-wrong auto)
FINETUNE=($(updates 800) --warmup-updates 50 --lr 1e-3)
