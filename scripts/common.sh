# Sourced by the other scripts: finds the commands, runs them, and runs the stages of a recipe.
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

# write FILE [-i INPUT] COMMAND...: the same, with the command's output in FILE, which gets its name
# only when it is complete, and its input from INPUT
write() {
  local file=$1 input=/dev/null shown=
  shift
  if [ "$1" = -i ]; then
    input=$2 shown="< $(printf '%q' "$2") "
    shift 2
  fi
  printf '+ %s%s> %q\n' "$(printf '%q ' "$@")" "$shown" "$file"
  [ "${DRY_RUN:-0}" != 1 ] || return 0
  "$@" <"$input" >"$file.tmp" || die "failed: $* (for $file)"
  mv "$file.tmp" "$file"
}

# count_lines FILE: its number of lines; a last one without a line end counts
count_lines() {
  awk 'END { print NR }' "$1"
}

# same_lines A B: stop unless both files have the same number of lines
same_lines() {
  [ "${DRY_RUN:-0}" != 1 ] || return 0
  [ "$(count_lines "$1")" = "$(count_lines "$2")" ] || die "$1 and $2 differ in their number of lines"
}

# check_settings FOLDER NOTE SETTINGS: stop if FOLDER was made with other settings, as FOLDER/NOTE says. Where the note
# is within a product it comes and goes with it, so that settings that failed can be mended.
check_settings() {
  local noted=$1/$2
  [ ! -f "$noted" ] || [ "$(cat "$noted")" = "$3" ] ||
    die "$1 was made with other settings ($(cat "$noted"), now $3); give another folder or remove it"
}

# same_settings FOLDER SETTINGS: note SETTINGS in FOLDER; stop if it was made with others
same_settings() {
  check_settings "$1" settings "$2"
  mkdir -p "$1"
  echo "$2" >"$1/settings"
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
