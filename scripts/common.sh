# Sourced by the other scripts: finds the commands, and runs the stages of a recipe.
# STAGES="a b" runs only those stages; DRY_RUN=1 prints the commands instead of running them.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[ ! -d "$ROOT/.venv/bin" ] || PATH="$ROOT/.venv/bin:$PATH"
export PATH PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# run COMMAND...: print the command; run it unless DRY_RUN=1
run() {
  printf '+ %s\n' "$(printf '%q ' "$@")"
  [ "${DRY_RUN:-0}" = 1 ] || "$@"
}

# stage NAME FILE COMMAND...: run COMMAND unless its last product FILE is there or STAGES leaves NAME out
stage() {
  local name=$1 product=$2
  shift 2
  if [ -n "${STAGES:-}" ] && [[ " $STAGES " != *" $name "* ]]; then
    return 0
  fi
  if [ -e "$product" ]; then
    echo "== $name: done before ($product)"
    return 0
  fi
  echo "== $name"
  "$@"
}
