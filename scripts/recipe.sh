# Sourced by examples/*/run.sh, ablations.sh and the others: trains and compares the models of a recipe.
#
# A recipe sets DATA, RUNS, SRC, TGT, ROWS and REFERENCE (raw target text of the test set), and the
# arrays of a file in scripts/sizes; then it calls `recipe`. `settings NAME SRC TGT SIZE` sets all of
# these as the recipes in examples/ want them. Environment of every recipe:
#   SIZE       small or full, see scripts/sizes
#   DATA, RUNS folders (runs/NAME/data, runs/NAME/SIZE)
#   ROWS       models to train ("teacher scratch pkd can pet pet_patient"); scripts/rows.sh has all of them;
#              "finished": those that are there
#   SEEDS      "1": seeds of the students, each in a folder of its own; the teacher has one
#   STAGES     only these: names of rows, generate, report
#   BEAMS      "1 5"; REPEATS 3: how often each translation is timed
#   DRY_RUN=1  prints the commands
# Finished stages are skipped, an interrupted training resumes.
. "$ROOT/scripts/rows.sh"

# stacks LAYERS WIDTH FFN HEADS: model options for both stacks
stacks() {
  for stack in encoder decoder; do
    echo "--$stack-layers $1 --$stack-embed-dim $2 --$stack-ffn-embed-dim $3 --$stack-attention-heads $4"
  done
}

# updates N: train so long, the learning rate falling to 0
updates() {
  echo "--max-update $1 --total-num-update $1"
}

# settings NAME SRC TGT SIZE: what the recipes in examples/ share
settings() {
  SIZE=${SIZE:-$4} SRC=${SRC:-$2} TGT=${TGT:-$3}
  DATA=${DATA:-$ROOT/runs/$1/data} RUNS=${RUNS:-$ROOT/runs/$1/$SIZE}
  ROWS=${ROWS:-teacher scratch pkd can pet pet_patient}
  REFERENCE=$DATA/raw/test.$TGT
  GENERATE=(--remove-bpe --tokenizer moses)
  [ -f "$ROOT/scripts/sizes/$SIZE.sh" ] || die "SIZE=$SIZE: give small or full"
  . "$ROOT/scripts/sizes/$SIZE.sh"
}

recipe() {
  COMMON=(--source-lang "$SRC" --target-lang "$TGT" "${COMMON[@]}")
  GENERATE=(--source-lang "$SRC" --target-lang "$TGT" "${GENERATE[@]}")
  [ "${DRY_RUN:-0}" = 1 ] || [ -d "$DATA/bin" ] || die "$DATA/bin: no such folder; run prepare.sh first"
  local row seed
  [ "$ROWS" != finished ] || ROWS=$(finished_rows)
  for row in $ROWS; do
    is_row "$row" || die "ROWS: no model is called $row; there are $(known_rows)"
  done
  [[ " $ROWS " != *" teacher "* ]] || stage teacher "$RUNS/teacher/train.done" train_row teacher 1
  for seed in ${SEEDS:-1}; do
    for row in $ROWS; do
      [ "$row" != teacher ] || continue
      stage "$row" "$RUNS/$row.seed$seed/train.done" train_row "$row" "$seed"
    done
  done
  stage generate "" generate_rows
  stage report "" report_rows
}

# the rows of which RUNS holds a finished training
finished_rows() {
  local row
  for row in $(known_rows); do
    if compgen -G "$RUNS/$row/train.done" >/dev/null || compgen -G "$RUNS/$row.seed*/train.done" >/dev/null; then
      echo "$row"
    fi
  done
}

# the folders of the rows, one for each seed
row_folders() {
  local row seed
  for row in $ROWS; do
    if [ "$row" = teacher ]; then
      echo "$RUNS/teacher"
      continue
    fi
    for seed in ${SEEDS:-1}; do
      echo "$RUNS/$row.seed$seed"
    done
  done
}

generate_rows() {
  "$ROOT/scripts/generate.sh" "$DATA/bin" "${BEAMS:-1 5}" "${REPEATS:-3}" "${GENERATE[@]}" -- $(row_folders)
}

# the report is about every model in RUNS, trained now or before
report_rows() {
  [ "${DRY_RUN:-0}" = 1 ] || name_rows
  run pet-fairseq report "$RUNS" --reference "$REFERENCE" ${REPORT:-}
}

# order and titles of the report's rows
name_rows() {
  local row seed found=()
  for row in $(known_rows); do
    for folder in "$RUNS/$row" "$RUNS/$row".seed*; do
      [ -d "$folder" ] || continue
      row_title "$row" >"$folder/name.txt"
      [[ " ${found[*]} " == *" $row "* ]] || found+=("$row")
    done
    [[ " ${found[*]} " == *" $row "* || " $ROWS " != *" $row "* ]] || found+=("$row")
  done
  printf '%s\n' "${found[@]}" >"$RUNS/order.txt"
}
