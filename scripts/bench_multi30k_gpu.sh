#!/usr/bin/env bash
# The PET tables on Multi30k at full size on one large GPU, in stages meant to fit 10 minutes each (they go on
# where they stopped): bfloat16, scripts/sizes/full_fast.sh.
#
# Usage: bench_multi30k_gpu.sh DATA OUT [STAGE...]
#   DATA   folder with {train,val,test_2016_flickr}.{de,en}.gz, or "" to download them
#   OUT    folder for data, models, logs and tables
#   STAGE  teacher students pairs simplified heads sequence beams (default: all of them)
# Environment: SEEDS (1), SECONDS_PER_STAGE (570), DRY_RUN=1
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -ge 2 ] || die "usage: bench_multi30k_gpu.sh DATA OUT [STAGE...]"
data=$1 out=$2
shift 2
declare -A ROWS_OF=(
  [teacher]="teacher"
  [students]="teacher scratch kd pkd can deep_shallow pet"
  [pairs]="teacher pet pet_qk pet_kv"
  [simplified]="teacher pet pet_no_warmup pet_project pet_replace"
  [heads]="teacher pet pet_sampled pet_long"
  [sequence]="teacher pet scratch_seqkd speed_seqkd deep_shallow_seqkd pet_seqkd"
  [beams]="finished"
)
stages=("$@")
[ $# -gt 0 ] || stages=(teacher students pairs simplified heads sequence beams)
for stage in "${stages[@]}"; do
  [ -n "${ROWS_OF[$stage]:-}" ] || die "$stage: no such stage; give some of ${!ROWS_OF[*]}"
done
if [ "${DRY_RUN:-0}" != 1 ]; then
  python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
    die "no CUDA device; SIZE=small examples/multi30k/run.sh is for CPUs"
  mkdir -p "$out/logs"
fi
export OUT=$out/data DATA=$out/data RUNS=$out/runs SIZE=full_fast

# limited LOG COMMAND...: within the time of a stage, with a log; what is cut off resumes next time
limited() {
  local log=$1 status=0
  shift
  if [ "${DRY_RUN:-0}" = 1 ]; then
    "$@"
    return
  fi
  timeout "${SECONDS_PER_STAGE:-570}" "$@" 2>&1 | tee -a "$log" || status=$?
  [ $status != 124 ] || die "stage cut off after ${SECONDS_PER_STAGE:-570} s; call again to go on"
  return $status
}

limited "$out/logs/prepare.log" "$ROOT/examples/multi30k/prepare.sh" ${data:+"$data"}
for stage in "${stages[@]}"; do
  export ROWS=${ROWS_OF[$stage]}
  if [ "$stage" = beams ]; then
    limited "$out/logs/$stage.log" "$ROOT/scripts/beam_sensitivity.sh" multi30k
  else
    limited "$out/logs/$stage.log" "$ROOT/examples/multi30k/run.sh"
  fi
done
[ "${DRY_RUN:-0}" = 1 ] || echo "see $RUNS/report.md and $out/logs"
