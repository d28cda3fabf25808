"""What is installed and what is said about it: the wheel, CITATION.cff, CHANGELOG.md, LICENSE."""

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).parents[2]
INSTALLED_APART = "fairseq-fixed"  # a requirement of it would bring torchaudio (docs/install.md)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The package as pip builds it, from a copy so that the tree stays as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    shutil.copytree(
        REPO / "pet_fairseq", tree / "pet_fairseq", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, tree)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder]
    subprocess.run([*pip, *options, tree], check=True, capture_output=True, text=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_has_every_file_of_the_package(wheel):
    expected = {
        str(path.relative_to(REPO))
        for path in (REPO / "pet_fairseq").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


def test_every_folder_with_modules_is_a_package():
    """find_packages skips folders without __init__.py."""
    folders = {path.parent for path in (REPO / "pet_fairseq").rglob("*.py")}
    assert folders
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_metadata(wheel, metadata):
    assert metadata["Name"] == "pet-fairseq"
    assert metadata["License"] == "MIT"
    assert metadata["Author"] == "pet_fairseq contributors"
    assert metadata["Requires-Python"] and metadata.get_all("Classifier")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().strip() == (REPO / "README.md").read_text().strip()
    (name,) = [name for name in wheel.namelist() if name.endswith("/LICENSE")]
    assert "pet_fairseq contributors" in wheel.read(name).decode()


def imported_modules(folders: list[Path]) -> set[str]:
    """The first names of what the modules in some folders import, outside Python's own library."""
    names = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.split(".")[0])
    return names - sys.stdlib_module_names


@pytest.mark.parametrize("folders", [["pet_fairseq"], ["pet_fairseq", "tests"]])
def test_every_package_that_is_imported_is_required(metadata, folders):
    """The tests may also import what only the extra `dev` brings."""
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    if folders == ["pet_fairseq"]:
        requirements = [r for r in requirements if 'extra == "dev"' not in str(r.marker)]
    required = {canonicalize_name(requirement.name) for requirement in requirements}
    required.add(INSTALLED_APART)
    providers = packages_distributions()
    names = imported_modules([REPO / folder for folder in folders]) & providers.keys()
    missing = [
        name
        for name in sorted(names - {"pet_fairseq", "tests"})
        if not required & {canonicalize_name(provider) for provider in providers[name]}
    ]
    assert len(names) > 5 and missing == []


def test_what_fairseq_needs_is_required_except_torchaudio(metadata):
    """fairseq is installed without its dependencies; cython is needed only to build it."""
    own = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    required = {canonicalize_name(r.name): r for r in own if r.marker is None}
    fairseq = [Requirement(text) for text in requires(INSTALLED_APART)]
    needed = {canonicalize_name(r.name): r for r in fairseq if r.marker is None}
    assert needed.keys() - required.keys() == {"torchaudio", "cython"}
    assert INSTALLED_APART not in required
    pinned = {name for name, r in needed.items() if "==" in str(r.specifier)}
    assert pinned and all(required[name].specifier == needed[name].specifier for name in pinned)


def test_one_version_everywhere(metadata):
    version = metadata["Version"]
    assert yaml.safe_load((REPO / "CITATION.cff").read_text())["version"] == version
    newest = re.search(r"^## \[?([\d.]+)\]?", (REPO / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == version


def test_citation():
    citation = yaml.safe_load((REPO / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    for key in ("message", "title", "authors", "license", "references"):
        assert citation[key]
    titles = [reference["title"].split(":")[0] for reference in citation["references"]]
    thesis = "Parameter-Efficient Knowledge Distillation on Transformer"
    assert titles == [thesis, "PET", "Variator", "SelfCP"]
    for reference in citation["references"]:
        assert reference["type"] and reference["year"]
        assert all(author["family-names"] for author in reference["authors"])
