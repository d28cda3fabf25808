#!/usr/bin/env bash
# A teacher and a PET student on parallel text of one's own, and the table that compares them.
#
# Usage: run.sh SRC TGT [OPTION...]      after prepare.sh; OPTION...: of `pet-fairseq recipe`, such as --rows and --seeds
# Environment: DATA (runs/own_data/data), RUNS (runs/own_data/small)
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
[ $# -ge 2 ] || die "usage: run.sh SRC TGT [OPTION...], such as run.sh de en --rows teacher pet"
run pet-fairseq recipe "$ROOT/examples/own_data" --data "${DATA:-$ROOT/runs/own_data/data}" \
  --runs "${RUNS:-$ROOT/runs/own_data/small}" --source-lang "$1" --target-lang "$2" "${@:3}"
