#!/usr/bin/env bash
# fairseq-train into RUN until it is finished: resumes where it stopped, also after a crash while saving.
#
# Usage: train.sh RUN BIN OPTIONS...
#   RUN  gets checkpoint_best.pt, checkpoint_last.pt, train.log, and train.done at the end
#   BIN  folder made by fairseq-preprocess
# Environment: BF16=1 trains in bfloat16 (a GPU that has it)
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# -ge 2 ] || die "usage: train.sh RUN BIN OPTIONS..."
run=$1 bin=$2
shift 2
[ ! -e "$run/train.done" ] || exit 0
if [ "${DRY_RUN:-0}" != 1 ]; then
  mkdir -p "$run"
  pet-fairseq repair "$run" 2>&1 | grep -v tensorboardX
fi
# a terminal gets progress bars, a log file gets lines
format=simple
[ ! -t 1 ] || format=tqdm
command=fairseq-train
[ "${BF16:-0}" != 1 ] || command=$ROOT/scripts/train_bf16.py
# without the last option fairseq drops the sentences that do not fill a batch of 8
run "$command" "$bin" --user-dir "$ROOT/pet_fairseq" --save-dir "$run" --log-file "$run/train.log" \
  --log-format "$format" --log-interval 50 --no-epoch-checkpoints --required-batch-size-multiple 1 "$@"
[ "${DRY_RUN:-0}" = 1 ] || touch "$run/train.done"
