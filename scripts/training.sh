# Sourced by variator.sh and selfcp.sh: what their recipes train with. COMMON: options of every training.

# fit RUN BIN OPTIONS...
fit() {
  local folder=$1 bin=$2
  shift 2
  "$ROOT/scripts/train.sh" "$folder" "$bin" "${COMMON[@]}" "$@"
}

# use_model RUN FILE: a given checkpoint instead of a training
use_model() {
  [ -f "$2" ] || die "$2: no such file"
  run mkdir -p "$1"
  run ln -sf "$(realpath "$2")" "$1/checkpoint_best.pt"
  run touch "$1/train.done"
}

# updates N: train so long, the learning rate rising in the first tenth
updates() { echo "--max-update $1 --total-num-update $1 --warmup-updates $(($1 / 10))"; }
