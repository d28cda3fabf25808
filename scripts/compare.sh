#!/usr/bin/env bash
# The comparison that the demo and the recipes share: teacher -> student of the same size from
# scratch -> PET student -> translations -> report.
#
# Usage: compare.sh RUNS BIN REFERENCE
#   RUNS       folder for the results; BIN: made by fairseq-preprocess; REFERENCE: raw target text of the test set
# The caller sets these arrays of options: COMMON (all trainings), TEACHER, SCRATCH, PET (each one's
# own), GENERATE; and TITLES, an associative array of names for the report. BEAMS, REPEATS are optional.
compare() {
  local runs=$1 bin=$2 reference=$3 scripts=$ROOT/scripts
  [ "${DRY_RUN:-0}" = 1 ] || name_runs "$runs"
  stage teacher "$runs/teacher/train.done" "$scripts/train.sh" "$runs/teacher" "$bin" "${COMMON[@]}" "${TEACHER[@]}"
  stage scratch "$runs/scratch/train.done" "$scripts/train.sh" "$runs/scratch" "$bin" "${COMMON[@]}" "${SCRATCH[@]}"
  stage pet "$runs/pet/train.done" "$scripts/train.sh" "$runs/pet" "$bin" "${COMMON[@]}" "${PET[@]}" \
    --criterion pet_distillation --teacher-path "$runs/teacher/checkpoint_best.pt"
  stage generate "$runs/generate.done" generate_all "$runs" "$bin"
  stage report "$runs/report.md" run pet-fairseq report "$runs" --reference "$reference"
}

# the order and the titles of the rows in the report
name_runs() {
  mkdir -p "$1"
  printf '%s\n' teacher scratch pet >"$1/order.txt"
  for name in teacher scratch pet; do
    mkdir -p "$1/$name"
    echo "${TITLES[$name]}" >"$1/$name/name.txt"
  done
}

generate_all() {
  "$ROOT/scripts/generate.sh" "$2" "${BEAMS:-1 5}" "${REPEATS:-3}" "${GENERATE[@]}" -- "$1"/{teacher,scratch,pet}
  [ "${DRY_RUN:-0}" = 1 ] || touch "$1/generate.done"
}
