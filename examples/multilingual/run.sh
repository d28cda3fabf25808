#!/usr/bin/env bash
# What a student needs of its teacher and its text: a teacher of German, English and Finnish, one of English to German alone,
# and English-German students of both.
#
# Usage: run.sh STAGE...       after prepare.sh; stages in their order:
#   teacher      translation_multi_simple_epoch, the directions of PAIRS, the target language's token before the source
#   bilingual    the same layers, English to German only; a checkpoint every 500 updates
#   equal        the one of these whose BLEU is nearest to the teacher of several languages
#   students     what its students learn from, for each seed
# Environment: DATA (runs/multilingual/data), RUNS (runs/multilingual), SEEDS ("1 2 3"), ROWS (all of them: pairs, text, more,
#   bilingual, distributions, translations, keep, n2000, n1000, new2000, new1000, pre_norm, marian), UPDATES (4000),
#   TEACHER_UPDATES (8000), PAIRS (of `teacher`: de-en,en-de,en-fi,fi-en), BILINGUAL_UPDATES (4000),
#   EVERY (500 updates, a checkpoint of `bilingual`), DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
data=${DATA:-$ROOT/runs/multilingual/data} runs=${RUNS:-$ROOT/runs/multilingual}
model=(--arch transformer --encoder-layers 3 --decoder-layers 3 --encoder-embed-dim 160 --decoder-embed-dim 160
  --encoder-ffn-embed-dim 400 --decoder-ffn-embed-dim 400 --encoder-attention-heads 4 --decoder-attention-heads 4
  --encoder-normalize-before --decoder-normalize-before --share-all-embeddings --dropout 0.2)
training=(--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --adam-betas "(0.9, 0.98)"
  --lr 2e-3 --lr-scheduler inverse_sqrt --warmup-updates 1000 --clip-norm 1.0 --no-epoch-checkpoints --seed 1
  --required-batch-size-multiple 1 --num-workers 0 --log-format json --log-interval 100 --cpu)

teacher() {
  run pet-fairseq train-bf16 "$data/bin" --task translation_multi_simple_epoch --langs de,en,fi \
    --lang-pairs "${PAIRS:-de-en,en-de,en-fi,fi-en}" --encoder-langtok tgt "${model[@]}" "${training[@]}" \
    --max-tokens 2000 --max-update "${TEACHER_UPDATES:-8000}" --save-dir "$runs/teacher"
}

bilingual() {
  run pet-fairseq train-bf16 "$data/bin" --task translation --source-lang en --target-lang de "${model[@]}" "${training[@]}" \
    --max-tokens 2000 --max-update "${BILINGUAL_UPDATES:-4000}" --save-interval-updates "${EVERY:-500}" --save-dir "$runs/bilingual"
}

# bleu CHECKPOINT: of its translations of the test set
bleu() {
  pet-fairseq translate "$1" --input "$data/raw/test.de-en.en" |
    sacrebleu "$data/raw/test.de-en.de" -m bleu -b -w 2
}

# the teacher of several languages as a model of one direction
one_direction() {
  [ -e "$runs/teacher/en-de" ] ||
    run pet-fairseq bilingual "$runs/teacher/checkpoint_best.pt" --source-lang en --target-lang de --out "$runs/teacher/en-de"
}

equal() {
  one_direction
  [ "${DRY_RUN:-0}" != 1 ] || return 0
  local checkpoint score best wanted
  wanted=$(bleu "$runs/teacher/en-de/checkpoint.pt")
  for checkpoint in "$runs"/bilingual/checkpoint_*_*.pt; do
    score=$(bleu "$checkpoint") # on a line of its own: ends here if a command failed
    echo "$score $checkpoint"
  done >"$runs/bilingual/bleu.txt"
  best=$(awk -v wanted="$wanted" '{ d = $1 - wanted; print (d < 0 ? -d : d), $2 }' "$runs/bilingual/bleu.txt" |
    sort -g | head -1 | cut -d" " -f2)
  echo "several languages: $wanted BLEU; nearest: $(grep -F "$best" "$runs/bilingual/bleu.txt")"
  run ln -sf "$(basename "$best")" "$runs/bilingual/checkpoint_equal.pt"
}

# wanted ROW: whether it is among ROWS
wanted() {
  [[ " ${ROWS:-pairs text more bilingual distributions translations keep n2000 n1000 new2000 new1000 pre_norm marian} " == *" $1 "* ]]
}

# student ROW TEACHER OPTION...: one of each seed, tested on Multi30k
student() {
  local row=$1 seed
  wanted "$row" || return 0
  for seed in ${SEEDS:-1 2 3}; do
    run pet-fairseq compress "${@:2}" --updates "${UPDATES:-4000}" --precision bf16 --device cpu --seed "$seed" \
      --out "$runs/students/$row.seed$seed"
  done
}

students() {
  local several=("$runs/teacher/checkpoint_best.pt" --source-lang en --target-lang de)
  local one=("$runs/bilingual/checkpoint_equal.pt") raw="$data/raw"
  local test=(--test-pair "$raw/test.de-en.en" "$raw/test.de-en.de")
  local pairs=(--train-pair "$raw/train.de-en.en" "$raw/train.de-en.de"
    --valid-pair "$raw/valid.de-en.en" "$raw/valid.de-en.de" "${test[@]}")
  local text=(--text "$raw/train.de-en.en" "${test[@]}")
  local engine="$runs/bilingual/ctranslate2" engine_of_several="$runs/teacher/ctranslate2"
  # of equal bytes: at 0.87 MB both forms have 2 + 2 layers of width 64
  local forms=("$runs/bilingual/checkpoint_best.pt" --data "$data/bin" --megabytes 0.87)
  [ -e "$engine" ] || ! wanted translations ||
    run pet-fairseq export "${one[@]}" --data "$data/bin" --to ctranslate2 --out "$engine"
  if [ ! -e "$engine_of_several" ] && { wanted new2000 || wanted new1000; }; then
    one_direction
    run pet-fairseq export "$runs/teacher/en-de/checkpoint.pt" --data "$runs/teacher/en-de" --to ctranslate2 \
      --out "$engine_of_several"
  fi
  student pairs "${several[@]}" "${pairs[@]}" --vocabulary trim
  student text "${several[@]}" "${text[@]}" --vocabulary trim
  student more "${several[@]}" "${pairs[@]}" --text "$raw/train.en-fi.en" --vocabulary trim
  student bilingual "${one[@]}" "${pairs[@]}" --vocabulary trim
  student distributions "${one[@]}" "${text[@]}" --vocabulary trim
  student translations "$engine" "${text[@]}" --vocabulary trim
  student keep "${several[@]}" "${pairs[@]}" --vocabulary keep
  student n2000 "${several[@]}" "${pairs[@]}" --vocabulary 2000
  student n1000 "${several[@]}" "${pairs[@]}" --vocabulary 1000
  local new=("$engine_of_several" "${pairs[@]}" --text "$raw/train.de-en.en")
  student new2000 "${new[@]}" --vocabulary 2000
  student new1000 "${new[@]}" --vocabulary 1000
  student pre_norm "${forms[@]}"
  student marian "${forms[@]}" --student-form marian
}

for name in "$@"; do
  "$name"
done
