#!/usr/bin/env bash
# fairseq-generate for several finished runs, alternating between them so that their speeds compare.
#
# Usage: generate.sh BIN "BEAMS" REPEATS OPTIONS... -- RUN...
#   writes RUN/generate.beam<B>.<k>.txt for every beam size and repeat k; finished ones are kept
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -ge 5 ] || die 'usage: generate.sh BIN "BEAMS" REPEATS OPTIONS... -- RUN...'
bin=$1 beams=$2 repeats=$3
shift 3
options=()
while [ "$1" != -- ]; do
  options+=("$1")
  shift
  [ $# -gt 0 ] || die "no '--' before the runs"
done
shift

# translate RUN BEAM OUTPUT
translate() {
  [ ! -e "$3" ] || return 0
  local command=(fairseq-generate "$bin" --user-dir "$ROOT/pet_fairseq" --path "$1/checkpoint_best.pt"
    --beam "$2" --required-batch-size-multiple 1 "${options[@]}")
  if [ "${DRY_RUN:-0}" = 1 ]; then
    run "${command[@]}"
    return 0
  fi
  echo "+ beam $2: $3"
  "${command[@]}" >"$3.tmp" 2>&1 || {
    tail -n 3 "$3.tmp" >&2
    die "fairseq-generate failed for $1, see $3.tmp"
  }
  mv "$3.tmp" "$3"
}

for k in $(seq "$repeats"); do
  for beam in $beams; do
    for run in "$@"; do
      translate "$run" "$beam" "$run/generate.beam$beam.$k.txt"
    done
  done
done
