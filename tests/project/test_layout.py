"""The lists in the documents name the files that are there, and no others."""

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
SCRIPTS = REPO / "scripts"


def listed() -> dict[str, set[str]]:
    """The scripts that scripts/README.md lists, by folder."""
    sections = re.split(r"^## ", (SCRIPTS / "README.md").read_text(), flags=re.MULTILINE)[1:]
    return {
        re.match(r"\w+", section)[0]: set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
        for section in sections
    }


@pytest.mark.parametrize("folder", ["text", "benchmarks", "reliability", "docs", "environment"])
def test_the_scripts_readme_lists_every_script(folder):
    assert listed()[folder] == {path.name for path in (SCRIPTS / folder).glob("*.*")}


def test_every_script_named_anywhere_is_there():
    files = [REPO / "Makefile", *REPO.glob("*.md")]
    for folder in ("docs", "examples", "scripts", "tests"):
        files += [p for p in (REPO / folder).rglob("*") if p.suffix in (".md", ".sh", ".py")]
    missing = [
        f"{path.relative_to(REPO)}: {name}"
        for path in files
        for name in re.findall(r"scripts/[\w/]+\.(?:sh|py)", path.read_text())
        if not (REPO / name).exists()
    ]
    assert files and not missing
