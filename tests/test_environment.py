"""What is said where the installed packages cannot work, or loading would not be safe."""

import subprocess
import sys
from pathlib import Path

import pytest

from pet_fairseq import environment
from pet_fairseq.errors import UserError

REPO = Path(__file__).parents[1]
NEEDS = {need.package: need for need in environment.NEEDS}


def with_version(monkeypatch, package, version):
    monkeypatch.setattr(sys.modules[package], "__version__", version)


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("torch", "2.6.0"),
        ("torch", "2.10.0a0+git1234"),
        ("torch", "2.13.0+cpu"),
        ("torch", "3.0"),
        ("fairseq", "0.12.3.1"),
        ("fairseq", "1.0.0a0+0"),  # of a clone
    ],
)
def test_versions_that_work(package, version, monkeypatch):
    with_version(monkeypatch, package, version)
    environment.check_version(NEEDS[package])


@pytest.mark.parametrize(
    ("package", "version", "reason"),
    [
        ("torch", "2.5.1+cu124", "2.6 or later"),
        ("torch", "1.13.1", "2.6 or later"),
        ("torch", "unknown", "2.6 or later"),
        ("fairseq", "0.12.2", "fairseq-fixed 0.12.3.1"),
    ],
)
def test_versions_that_do_not(package, version, reason, monkeypatch):
    with_version(monkeypatch, package, version)
    with pytest.raises(UserError) as error:
        environment.check_version(NEEDS[package])
    message = str(error.value)
    assert message.startswith(f"{package} {version}: pet_fairseq needs ")
    assert reason in message and "fresh environment" in message and "\n" not in message


def test_a_package_that_is_missing():
    need = environment.Need("no_such_package", "1", "", "pip install it")
    with pytest.raises(UserError, match=r"^no_such_package cannot be imported \(No module.*; pip "):
        environment.check_version(need)


def test_fairseq_is_missing():
    """pet_fairseq does not bring it, so the line has the command that does."""
    hide = "import sys; sys.modules['fairseq'] = None"
    code = f"{hide}; import pet_fairseq; pet_fairseq.register()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    (line,) = result.stderr.splitlines()
    assert result.returncode == 1 and line.endswith(f"; {environment.FAIRSEQ}")


def test_a_package_lacks_what_it_needs(tmp_path, monkeypatch):
    (tmp_path / "hollow.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"'no_such_package'\); install .* fresh environment"):
        environment.check_version(environment.Need("hollow", "1", "", "pip install it"))


@pytest.mark.slow
def test_transformers_and_the_converters_are_importable():
    """In a process of their own; a torchaudio that does not fit torch would break them."""
    imports = "from transformers import MarianMTModel; import ctranslate2.converters"
    result = subprocess.run([sys.executable, "-c", imports], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def other_fairseq(tmp_path):
    """A folder with another package called fairseq in it."""

    def write(source):
        (tmp_path / "fairseq").mkdir()
        (tmp_path / "fairseq/__init__.py").write_text(source)
        return tmp_path

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("__version__ = '0.12.2'", "fairseq 0.12.2: pet_fairseq needs 0.12.3"),
        # as fairseq 0.12.2 on Python 3.11
        ("raise ValueError('mutable default\\nfor field')", "fairseq cannot be imported (mutable"),
    ],
)
def test_another_package_of_that_name(source, reason, other_fairseq):
    """One line, of `import pet_fairseq` beside fairseq as of a command; help works all the same."""
    env = {"PYTHONPATH": f"{other_fairseq(source)}:{REPO}", "PATH": ""}

    def python(*words):
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env)

    registered = python("-c", "import pet_fairseq; pet_fairseq.register()")
    command = python("-m", "pet_fairseq.cli", "repair", "folder")
    for result in (registered, command):
        assert result.returncode == 1
        (line,) = result.stderr.splitlines()
        assert f"error: {reason}" in line and "fresh environment" in line
    assert python("-m", "pet_fairseq.cli", "--help").returncode == 0


# --- loading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", "y", "yes", "true", "True"])
def test_unsafe_loading_is_refused(value):
    with pytest.raises(UserError, match=rf"^{environment.NEVER_SAFE} is set.*ALLOW_UNSAFE"):
        environment.check_loading({environment.NEVER_SAFE: value})


@pytest.mark.parametrize("allow", ["", "0", "1"])
def test_both_switches_of_torch(allow):
    """torch then raises at every load."""
    variables = {environment.NEVER_SAFE: "1", environment.ALWAYS_SAFE: "1"}
    with pytest.raises(UserError, match="both set"):
        environment.check_loading({**variables, environment.ALLOW_UNSAFE: allow})


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {environment.NEVER_SAFE: "0"},
        {environment.NEVER_SAFE: ""},
        {environment.NEVER_SAFE: "1", environment.ALLOW_UNSAFE: "1"},
        {environment.ALWAYS_SAFE: "1"},
    ],
)
def test_loading_that_is_safe_or_meant(variables):
    environment.check_loading(variables)


def test_only_yes_allows_it():
    with pytest.raises(UserError):
        environment.check_loading({environment.NEVER_SAFE: "1", environment.ALLOW_UNSAFE: "no"})
