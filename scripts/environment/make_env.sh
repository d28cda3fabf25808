#!/usr/bin/env bash
# Makes .venv in the root of the repository and installs pet_fairseq with all it needs. Safe to call again.
#
# Environment: PYTHON (python3), TORCH (torch==2.13.0)
# fairseq compiles extensions against torch, so torch comes first and fairseq is built without
# isolation: with isolation pip would fetch a second torch, several GB, just to compile.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
python=${PYTHON:-python3} torch=${TORCH:-torch==2.13.0}
stamp=.venv/.complete
key="$torch $(sha256sum setup.py scripts/environment/make_env.sh | sha256sum | cut -c1-16)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ]; then
  exit 0
fi
"$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' ||
  { echo "make env: needs Python 3.10, 3.11 or 3.12, $python is $("$python" -V); give PYTHON=..." >&2; exit 1; }
command -v g++ >/dev/null || { echo "make env: needs g++ to compile fairseq's extensions" >&2; exit 1; }
step() { echo "make env: $*"; }

step ".venv with $("$python" -V)"
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
step "build tools, numpy and $torch"
pip install 'setuptools<81' wheel 'cython<4' 'numpy>=1.26,<2' "$torch"
if ! .venv/bin/python -m pip show --quiet fairseq-fixed 2>/dev/null; then
  step "fairseq (compiles; 2 to 10 minutes the first time)"
  pip install --no-build-isolation 'fairseq-fixed==0.12.3.1' 'numpy>=1.26,<2' "$torch"
fi
step "pet_fairseq and its other packages"
pip install --no-build-isolation --editable '.[dev]' "$torch"
echo "$key" >"$stamp"
step "done"
