"""Which Python `make env` takes and what it installs, with Pythons that only record their calls."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
TOOLS = "bash cat chmod cp cut dirname env grep mkdir rm sha256sum sh tail tee".split()

# A Python of some version: `broken` lists what it cannot import, `calls` gets what pip was told.
PYTHON = """#!/bin/sh
folder=FOLDER
case "$*" in
  -V) echo Python VERSION.1 ;;
  *"sys.version_info[:2]"*) echo VERSION ;;
  *Python.h*) ! grep -qx Python.h $folder/broken ;;
  "-c import "*) ! grep -qx "${2#import }" $folder/broken ;;
  "-m venv --clear .venv") rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  *adapt_fairseq.py) echo adapt >>$folder/calls ;;
  *" show "*) ! grep -qx "show ${6:-$5}" $folder/broken ;;
  "-m pip "*) shift 3; echo "$*" >>$folder/calls; RUN ;;
esac
"""
COMPILES = """case "$*" in
  *fairseq-fixed*)
    echo "  building 'fairseq.libbleu' extension"; echo "  building 'fairseq.libnat' extension" ;;
  esac"""
FAILS = """case "$*" in *fairseq-fixed*) echo "error: no room on this disk"; exit 1 ;; esac"""


class Machine:
    """A copy of the project with some programs in PATH and no others."""

    def __init__(self, folder: Path):
        self.root, self.bin = folder / "project", folder / "bin"
        (self.root / "scripts/environment").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("setup.py", "make_env.sh", "adapt_fairseq.py"):
            folder = "" if name == "setup.py" else "scripts/environment"
            shutil.copy(REPO / folder / name, self.root / folder / name)
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name))
        self.program("g++")
        self.broken()

    def program(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def python(self, name: str, version: str, run: str = ":") -> None:
        text = PYTHON.replace("FOLDER", str(self.root.parent)).replace("VERSION", version)
        self.program(name, text.replace("RUN", run))

    def broken(self, *names: str) -> None:
        (self.root.parent / "broken").write_text("".join(f"{name}\n" for name in names))

    def make(self, **variables: str) -> subprocess.CompletedProcess:
        (self.root.parent / "calls").write_text("")
        return subprocess.run(
            ["bash", "scripts/environment/make_env.sh"],
            env={"PATH": str(self.bin), **variables},
            cwd=self.root,
            capture_output=True,
            text=True,
        )

    def made(self, **variables: str) -> str:
        """What it prints where it succeeds."""
        result = self.make(**variables)
        assert result.returncode == 0 and result.stderr == ""
        return result.stdout

    def refused(self, **variables: str) -> str:
        """The one line of an error."""
        result = self.make(**variables)
        assert result.returncode == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith("make env: ") and not (self.root / ".venv/.complete").exists()
        return line.removeprefix("make env: ")

    def calls(self) -> list[str]:
        return (self.root.parent / "calls").read_text().splitlines()


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


# --- which Python ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.10", "3.13", "3.14"])
def test_python3_comes_first(machine, version):
    machine.python("python3", version)
    machine.python("python3.12", "3.12")
    assert f".venv with Python {version}.1" in machine.made()


@pytest.mark.parametrize("version", ["2.7", "3.9", "3.15"])
@pytest.mark.parametrize(
    ("others", "taken"),
    [(["3.10", "3.12", "3.14"], "3.12"), (["3.13", "3.11"], "3.13"), (["3.13", "3.14"], "3.14")],
)
def test_another_one_where_python3_cannot_be_used(machine, version, others, taken):
    """3.12, whose fairseq need not be compiled, else the newest."""
    machine.python("python3", version)
    for other in others:
        machine.python(f"python{other}", other)
    assert f".venv with Python {taken}.1" in machine.made()


def test_a_name_without_a_python_behind_it(machine):
    """As pyenv's, which are there for every version that it knows."""
    shim = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"
    machine.program("python3", shim)
    machine.program("python3.13", shim)
    machine.python("python3.10", "3.10")
    assert ".venv with Python 3.10.1" in machine.made()


def test_no_python_at_all(machine):
    line = machine.refused()
    assert line.startswith("needs Python 3.10 to 3.14; none of python3 python3.12 python3.14 ")
    assert "apt-get install" in line and "uv" not in line


def test_uv_brings_one(machine):
    machine.python("python3", "3.9")
    machine.program("uv")
    assert machine.refused().endswith(
        'uv python install 3.12 && make env PYTHON="$(uv python find 3.12)"'
    )


@pytest.mark.parametrize(("name", "found"), [("python3.9", "Python 3.9.1"), ("none", "not there")])
def test_one_that_was_asked_for(machine, name, found):
    machine.python("python3.9", "3.9")
    machine.python("python3", "3.12")
    line = machine.refused(PYTHON=name)
    assert line == f"needs Python 3.10 to 3.14, PYTHON={name} is {found}"


@pytest.mark.parametrize(
    ("missing", "package"), [("ensurepip", "python3.13-venv"), ("Python.h", "python3.13-dev")]
)
def test_what_debian_keeps_in_packages_of_its_own(machine, missing, package):
    machine.python("python3", "3.13")
    machine.broken(missing)
    line = machine.refused()
    assert missing in line and f"apt-get install {package}" in line


def test_no_compiler(machine):
    machine.python("python3", "3.13")
    (machine.bin / "g++").unlink()
    assert "needs g++" in machine.refused()


# --- again ----------------------------------------------------------------------------------------


def test_what_was_chosen_stays(machine):
    """After `make env PYTHON=... TORCH=...`, `make test`, which calls it, changes nothing."""
    machine.python("python3", "3.13")
    machine.python("python3.12", "3.12")
    machine.made(PYTHON="python3.12", TORCH="torch==2.11.0")
    assert machine.made() == "" and machine.calls() == []
    with (machine.root / "setup.py").open("a") as file:
        file.write("# changed\n")
    output = machine.made()
    assert "torch==2.11.0" in output and ".venv with" not in output
    assert all("torch==2.11.0" in call for call in machine.calls() if "torch" in call)


def test_another_python_makes_the_folder_anew(machine):
    machine.python("python3.11", "3.11")
    machine.made(PYTHON="python3.11")
    (machine.root / ".venv/old").touch()
    machine.python("python3.13", "3.13")
    assert ".venv with Python 3.13.1" in machine.made(PYTHON="python3.13")
    assert not (machine.root / ".venv/old").exists()


def test_a_folder_whose_python_is_gone(machine):
    machine.python("python3", "3.13")
    machine.made()
    machine.program("gone", "#!/bin/sh\nexit 127\n")
    shutil.copy(machine.bin / "gone", machine.root / ".venv/bin/python")
    assert ".venv with Python 3.13.1" in machine.made()


# --- what is installed ----------------------------------------------------------------------------


def test_fairseq_comes_last_and_without_its_dependencies(machine):
    machine.python("python3", "3.13", COMPILES)
    machine.broken("show fairseq-fixed")
    output = machine.made()
    first, second, last, adapted = machine.calls()
    assert "torch==2.13.0" in first and "--editable .[dev]" in second
    assert "--no-deps --no-build-isolation fairseq-fixed==" in last
    assert adapted == "adapt"
    assert "fairseq: building 'fairseq.libbleu' extension (after" in output
    assert "fairseq: building 'fairseq.libnat' extension (after" in output
    assert output.splitlines()[-1] == "make env: done"


def test_fairseq_cannot_be_installed(machine):
    machine.python("python3", "3.13", FAILS)
    machine.broken("show fairseq-fixed")
    result = machine.make()
    assert result.returncode == 1 and not (machine.root / ".venv/.complete").exists()
    *log, line = result.stderr.splitlines()
    assert log == ["error: no room on this disk"]
    assert line == (
        "make env: fairseq could not be installed; .venv/fairseq.log has all that pip said"
    )


def test_fairseq_that_was_compiled_for_another_numpy(machine):
    """pip keeps what it compiled once and would install it again."""
    machine.python("python3", "3.13")
    machine.broken("fairseq.data.data_utils_fast")
    machine.made()
    *_, forgets, compiles, adapted = machine.calls()
    assert forgets == "cache remove fairseq_fixed"
    assert "--force-reinstall fairseq-fixed==" in compiles and adapted == "adapt"


@pytest.mark.parametrize(
    ("broken", "leaves"), [((), False), (["torchaudio"], True), (["show torchaudio"], False)]
)
def test_a_torchaudio_that_does_not_fit(machine, broken, leaves):
    """That of an environment from before; one that works is the user's."""
    machine.python("python3", "3.13")
    machine.broken(*broken)
    machine.made()
    assert any("uninstall --yes torchaudio" in call for call in machine.calls()) == leaves


def test_the_script_can_be_executed():
    assert os.access(REPO / "scripts/environment/make_env.sh", os.X_OK)
