"""The lists in the documents name the files that are there, and no others."""

import ast
import re
from collections import Counter
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


def names_in(path: Path) -> set[str]:
    """What `from path import ...` may name: everything that is bound at its top level."""
    bound = set()
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(statement.name)
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.alias):
                bound.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add(node.id)
    return bound


def source_of(module: str, folder: Path) -> Path:
    """The file of a module beside a script or in the repository; it may not exist."""
    path = Path(*module.split("."))
    beside = folder / path.with_suffix(".py")
    package = REPO / path / "__init__.py"
    return next((p for p in (beside, package) if p.exists()), REPO / path.with_suffix(".py"))


def missing_names(script: Path) -> list[str]:
    """Names that a script imports from our own modules, which have none of that name."""
    missing = []
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            source = source_of(node.module, script.parent)
            for name in (alias.name for alias in node.names) if source.exists() else ():
                is_module = source_of(f"{node.module}.{name}", script.parent).exists()
                if name not in names_in(source) and not is_module:
                    missing.append(f"{script.relative_to(REPO)}: {node.module}.{name}")
    return missing


def test_what_scripts_import_is_there(tmp_path, monkeypatch):
    scripts = [*SCRIPTS.rglob("*.py"), *(REPO / "examples").rglob("*.py")]
    assert len(scripts) > 30 and [line for path in scripts for line in missing_names(path)] == []
    monkeypatch.setitem(globals(), "REPO", tmp_path)
    (tmp_path / "one.py").write_text("def f():\n    pass\n\n\nX = 1\n")
    (tmp_path / "two.py").write_text("import os\nfrom one import X, f, gone\n")
    assert missing_names(tmp_path / "two.py") == ["two.py: one.gone"]


def test_folders_that_tests_share_have_names_of_their_own():
    """Two fixtures with one name would take whatever the first of them made."""
    texts = [path.read_text(encoding="utf-8") for path in (REPO / "tests").rglob("*.py")]
    names = [name for text in texts for name in re.findall(r'\bonce\(\s*(f?"[^"]+")', text)]
    assert len(names) > 10
    assert [name for name, number in Counter(names).items() if number > 1] == []
