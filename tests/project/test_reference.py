"""docs/reference says what the code says; scripts/docs/hooks.py leads the site's links right."""

import importlib.util
import re
import sys

import pytest

from pet_fairseq.cli import COMMANDS
from tests.project.test_documents import REPO

SCRIPTS = REPO / "scripts/docs"


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    """The generator, whose neighbours are found beside it as where it is run."""
    sys.path.insert(0, str(SCRIPTS))
    yield load("reference")
    sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="module")
def pages(reference) -> dict[str, str]:
    return reference.pages()


def test_pages_are_up_to_date(reference, pages):
    """If this fails: make reference."""
    assert {path.name for path in reference.REFERENCE.glob("*.md")} == set(pages)
    stale = [
        name
        for name, text in pages.items()
        if (reference.REFERENCE / name).read_text(encoding="utf-8") != text
    ]
    assert stale == []


def test_every_command_has_a_section(pages):
    text = "".join(pages.values())
    assert [name for name in COMMANDS if f"## `pet-fairseq {name}`\n" not in text] == []


def test_what_a_page_says_of_an_option(pages):
    page = pages["fairseq.md"].split("### `--criterion pet_distillation`")[1]
    (line,) = re.findall(r"\| `--distillation-temperature .*", page.split("\n### ")[0])
    assert line.endswith("Default: `1.0`. |")


# --- links of the site ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/pet.md", "papers.md#pet", "papers.md#pet"),
        ("docs/pet.md", "../examples/README.md#long", "examples/README.md#long"),
        ("docs/howto/own_text.md", "../../examples/README.md", "../examples/README.md"),
        ("docs/howto/own_text.md", "../report.md", "../report.md"),
        ("examples/glue/README.md", "../../docs/variator.md", "../../variator.md"),
        ("examples/glue/README.md", "tasks.py", "tasks.py"),
        ("docs/install.md", "../README.md#licence", "readme.md#licence"),
        ("CHANGELOG.md", "docs/report.md#x", "report.md#x"),
        ("docs/pet.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("docs/pet.md", "#attention", "#attention"),
    ],
)
def test_links_of_the_site(page, link, expected):
    hooks = load("hooks")
    assert hooks.rewrite(f"see [it]({link}).", REPO / page) == f"see [it]({expected})."


def test_a_folder_is_no_page_of_the_site():
    hooks = load("hooks")
    assert hooks.rewrite("its [tests](tests/gpu).", REPO / "README.md") == "its tests."
