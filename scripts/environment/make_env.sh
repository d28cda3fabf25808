#!/usr/bin/env bash
# Makes .venv in the root of the repository and installs pet_fairseq with all it needs. Safe to call again.
#
# Environment: PYTHON (that of .venv, else python3, else another one that is there and can be used)
#              TORCH (that of .venv, else torch==2.13.0)
# fairseq compiles extensions against torch and numpy, so it comes last and is built without
# isolation: with isolation pip would fetch a second torch, several GB, just to compile.
# It is installed without its dependencies, which setup.py lists: among them is torchaudio, which
# nothing here uses and which breaks transformers where its build does not fit torch's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
step() { echo "make env: $*"; }
stop() { echo "make env: $*" >&2; exit 1; }

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
can_be_used() { case $(version_of "$1") in 3.1[0-4]) ;; *) return 1 ;; esac; }

find_python() {
  # for 3.12 PyPI has a compiled fairseq (x86-64)
  local names=(python3 python3.12 python3.14 python3.13 python3.11 python3.10) name
  local way='install one (apt-get install python3.12-venv python3.12-dev) or name one (make env PYTHON=FILE)'
  for name in "${names[@]}"; do
    if can_be_used "$name"; then echo "$name"; return; fi
  done
  # shellcheck disable=SC2016  # for the user to type
  if command -v uv >/dev/null; then way='uv python install 3.12 && make env PYTHON="$(uv python find 3.12)"'; fi
  stop "needs Python 3.10 to 3.14; none of ${names[*]} is one; $way"
}

choose_python() {
  if [ -n "${PYTHON:-}" ]; then
    can_be_used "$PYTHON" ||
      stop "needs Python 3.10 to 3.14, PYTHON=$PYTHON is $("$PYTHON" -V 2>/dev/null || echo not there)"
    echo "$PYTHON"
  elif can_be_used .venv/bin/python; then
    echo .venv/bin/python
  else
    find_python
  fi
}

pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
works() { .venv/bin/python -c "import $1" 2>/dev/null; }

# All that pip says goes to a file; each extension is told when its turn comes.
install_fairseq() {
  local begun=$SECONDS log=.venv/fairseq.log
  step "fairseq: compiles 6 extensions, 2 to 10 minutes, unless pip has them from PyPI or an earlier time"
  pip --verbose install --no-deps --no-build-isolation "$@" fairseq-fixed==0.12.3.1 2>&1 | tee "$log" |
    { grep --line-buffered -o "building '.*' extension" || true; } |
    while read -r line; do step "fairseq: $line (after $((SECONDS - begun)) s)"; done ||
    { tail -n 30 "$log" >&2; stop "fairseq could not be installed; .venv/fairseq.log has all that pip said"; }
}

python=$(choose_python)
version=$(version_of "$python")
stamp=.venv/.complete
recorded=$(cat "$stamp" 2>/dev/null || true)  # the torch that was asked for, and a hash
torch=${TORCH:-${recorded% *}}
torch=${torch:-torch==2.13.0}
key="$torch $(sha256sum setup.py scripts/environment/make_env.sh scripts/environment/adapt_fairseq.py | sha256sum | cut -c1-16)"
if [ "$version" = "$(version_of .venv/bin/python)" ]; then
  if [ "$recorded" = "$key" ]; then exit 0; fi
else
  "$python" -c 'import ensurepip' 2>/dev/null ||
    stop "$python has no ensurepip, which venv needs (apt-get install python$version-venv)"
  step ".venv with $("$python" -V)"
  "$python" -m venv --clear .venv
fi
command -v g++ >/dev/null || stop "needs g++ to compile fairseq's extensions"
.venv/bin/python -c 'import os, sysconfig as s; open(os.path.join(s.get_path("include"), "Python.h"))' 2>/dev/null ||
  stop "needs Python.h to compile fairseq's extensions (apt-get install python$version-dev)"
# Without --user-dir fairseq's language models still want names that numpy 2 lacks.
case $version in 3.10 | 3.11 | 3.12) numpy='numpy>=1.26,<2' ;; *) numpy='numpy>=1.26' ;; esac
step "build tools, $numpy and $torch"
pip --quiet install 'setuptools<81' wheel 'cython<4' "$numpy" "$torch"
step "pet_fairseq and its packages"
pip --quiet install --no-warn-conflicts --no-build-isolation --editable '.[dev]' "$numpy" "$torch"
if ! pip show --quiet fairseq-fixed 2>/dev/null; then install_fairseq; fi
.venv/bin/python scripts/environment/adapt_fairseq.py
if ! works fairseq.data.data_utils_fast; then
  step "fairseq: pip kept one that was compiled for another numpy, so once more"
  pip cache remove fairseq_fixed >/dev/null 2>&1 || true
  install_fairseq --force-reinstall
  .venv/bin/python scripts/environment/adapt_fairseq.py
fi
if pip show --quiet torchaudio 2>/dev/null && ! works torchaudio; then
  step "takes away a torchaudio that does not fit torch"
  pip --quiet uninstall --yes torchaudio
fi
echo "$key" >"$stamp"
step "done"
