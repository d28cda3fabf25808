#!/usr/bin/env bash
# The ablations of the PET thesis on one data set: Table 5 (what the decoder shares), Table 6 (with and
# without the simplified task), Table 7 (how the four classes are made), Table 8 (head sampling, beside a
# student that is trained as long without it).
#
# Usage: ablations.sh DATASET     a folder in examples/, after its prepare.sh
# Environment: TABLES="5 6 7 8"; otherwise as examples/DATASET/run.sh (SIZE, SEEDS, STAGES, DRY_RUN, ...)
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# = 1 ] || die "usage: ablations.sh DATASET"
[ -f "$ROOT/examples/$1/run.sh" ] || die "$1: no such data set; examples/ has $(ls "$ROOT/examples" | xargs)"
declare -A ROWS_OF=(
  [5]="pet pet_qk pet_kv"
  [6]="pet pet_no_warmup"
  [7]="pet pet_project pet_replace"
  [8]="pet pet_sampled pet_long"
)
rows=teacher
for table in ${TABLES:-5 6 7 8}; do
  [ -n "${ROWS_OF[$table]:-}" ] || die "TABLES: $table is not one of 5 6 7 8"
  for row in ${ROWS_OF[$table]}; do
    [[ " $rows " == *" $row "* ]] || rows+=" $row"
  done
done
REPORT="--baseline pet" ROWS=$rows "$ROOT/examples/$1/run.sh"
