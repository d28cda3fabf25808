#!/usr/bin/env bash
# BLEU over beam sizes 1 to 10 for every finished model of a recipe (PET thesis, Figure 8), by
# fairseq-generate; the report gets a table and bleu_over_beam.png.
#
# Usage: beam_sensitivity.sh DATASET     a folder in examples/, after its run.sh
# Environment: BEAMS ("1 2 ... 10"); ROWS (every model that is there); otherwise as examples/DATASET/run.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ $# = 1 ] || die "usage: beam_sensitivity.sh DATASET"
recipe=$ROOT/examples/$1/run.sh
[ -f "$recipe" ] || die "$1: no such data set; examples/ has $(ls "$ROOT/examples" | xargs)"
export BEAMS=${BEAMS:-1 2 3 4 5 6 7 8 9 10} REPEATS=1 STAGES="generate report"
ROWS=${ROWS:-finished} "$recipe"
