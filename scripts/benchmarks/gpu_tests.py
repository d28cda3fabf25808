"""The tests marked `gpu`, and a table of their outcomes: a slice of gpu.py.

python scripts/benchmarks/gpu_tests.py FOLDER OUT
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # works without an installation

from pet_fairseq.files import write_text  # noqa: E402
from pet_fairseq.markdown import table  # noqa: E402


def run_tests(folder: str, out: Path) -> int:
    """Run the tests marked `gpu` below a folder and write the outcome of each."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-m", "gpu", folder]
        # a file of tests that lacks a library here does not hold up the others
        command += ["--continue-on-collection-errors", "--junit-xml", str(report)]
        subprocess.run(command, cwd=ROOT)
        if not report.exists():
            print("pytest wrote no report; see above")
            return 1
        cases = list(ElementTree.parse(report).iter("testcase"))
    outcomes = {case: outcome(case) for case in cases}
    counts = [
        f"{sum(o == kind for o, _ in outcomes.values())} {kind}"
        for kind in ("passed", "skipped", "failed")
    ]
    rows = [
        (
            f"{case.get('classname')}::{case.get('name')}",
            kind,
            f"{float(case.get('time', 0)):.1f}",
            why,
        )
        for case, (kind, why) in outcomes.items()
    ]
    write_text(out, f"{', '.join(counts)}\n\n{table(['test', '', 's', ''], rows, text=(0, 1, 3))}")
    return 0


def outcome(case: ElementTree.Element) -> tuple[str, str]:
    """passed, skipped or failed, and the first line of the reason."""
    for tag, kind in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        element = case.find(tag)
        if element is not None:
            return kind, (element.get("message") or "").split("\n")[0]
    return "passed", ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", help="of the tests")
    parser.add_argument("out", type=Path, metavar="OUT", help="the table to write")
    args = parser.parse_args()
    sys.exit(run_tests(args.folder, args.out))
