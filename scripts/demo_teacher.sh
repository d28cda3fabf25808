#!/usr/bin/env bash
# Make the teacher that comes with the package: train it, pack it, put it in its place.
#
# Usage: demo_teacher.sh RUNS [OPTIONS]      of `pet-fairseq recipe demo`; RUNS: for the training
#   OUT=FOLDER   where teacher.packed and teacher.spm.model go (pet_fairseq/demo)
# After an interruption, call it again.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 1 ] || die "give a folder for the training: demo_teacher.sh RUNS"
runs=$1
shift
out=${OUT:-$ROOT/pet_fairseq/demo}

# Twice the updates of a teacher with this dropout that was the best of those tried
# (docs/results/archive/bytes.md, better teachers); not tuned. One dictionary, so that every engine
# takes its students.
run pet-fairseq recipe demo --joined-dictionary --rows teacher --stages data teacher \
  --runs "$runs" --teacher-options "--dropout 0.3 --attention-dropout 0.1 \
--activation-dropout 0.1 --max-update 3000 --total-num-update 3000" "$@"
run pet-fairseq pack "$runs/teacher/checkpoint_best.pt" --data "$runs/data/bin" --bits 8 \
  --out "$out/teacher.packed"
run cp "$runs/data/text/spm.model" "$out/teacher.spm.model"
