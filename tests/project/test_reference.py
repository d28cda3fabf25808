"""docs/reference says what the code says; scripts/docs/hooks.py leads the site's links right."""

import importlib.util
import re
import sys

import pytest
from fairseq.registry import REGISTRIES

from pet_fairseq.cli import COMMANDS
from tests.project.test_documents import REPO
from tests.recipes import RECIPES
from tests.recipes.paper import parser as recipe_parser

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
    listed = [name for name, command in COMMANDS.items() if command.group is not None]
    assert [name for name in listed if f"## `pet-fairseq {name}`\n" not in text] == []


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


# --- tables that people write ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def defaults(reference) -> dict[str, set[str]]:
    """Every option of this package, and its defaults in commands, recipes and components."""
    components = sys.modules["components"]
    parsers = [command.parser() for command in COMMANDS.values() if command.add_arguments]
    parsers += map(recipe_parser, RECIPES)
    actions = [(action, action.default) for parser in parsers for action in parser._actions]
    for kind in components.KINDS:
        for name, component in kind.registry.items():
            if component.__module__.startswith("pet_fairseq."):
                own = components.defaults_of(name)
                for action in components.parser_of(component)._actions:
                    actions.append((action, own.get(action.dest, action.default)))
    found = {f"--{name}": set() for name in REGISTRIES}  # --bpe and --tokenizer are fairseq's
    for division in REGISTRIES["bpe"]["registry"].values():
        found |= {option: set() for option in components.parser_of(division)._option_string_actions}
    for action, default in actions:
        said = re.findall(r"default: ([^;,)]*)", action.help or "")
        for name in action.option_strings:
            found.setdefault(name, set()).update([shown(default), *said])
    return found


def shown(default: object) -> str:
    """A default as a table shows it: 1 for 1.0, words with spaces between them."""
    if isinstance(default, (list, tuple)):
        return " ".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def written_options() -> list[tuple[str, str, str]]:
    """Page, option and default, of tables that have both and of text such as "`--lr` (0.1)"."""
    rows = []
    for path in sorted((REPO / "docs").glob("**/*.md")):
        text = path.read_text(encoding="utf-8")
        for table in re.findall(r"^\| option[^|]*\| default .*\n\|.*\n((?:\|.*\n)+)", text, re.M):
            for line in table.splitlines():
                options, default = line.split("|")[1:3]
                rows += [
                    (path.name, o, default.strip()) for o in re.findall(r"`(--[\w-]+)", options)
                ]
        in_text = re.findall(r"`(--[\w-]+)`\s\(([\d.,]+|`[^`]*`)\)", text)
        rows += [(path.name, option, default) for option, default in in_text]
    return rows


def test_tables_of_options_name_options(defaults):
    rows = written_options()
    assert len(rows) > 30
    assert [row for row in rows if row[1] not in defaults] == []


def test_tables_of_options_have_the_defaults_of_the_code(defaults):
    """Where a default is one number or one word set as code; others are said in words."""
    exact = [row for row in written_options() if re.fullmatch(r"`[^`]*`|[\d.,]+", row[2])]
    assert len(exact) > 15
    wrong = [
        row
        for row in exact
        if row[2].strip("`").replace(",", "") not in {d.replace(",", "") for d in defaults[row[1]]}
    ]
    assert wrong == []


def test_no_line_of_the_site_ends_inside_an_option():
    html = "<p>--x <code>train --max-update N --cpu</code></p>"
    span = '<span class="option">{}</span>'.format
    code = f"train {span('--max-update N')} {span('--cpu')}"
    assert load("hooks").mark_options(html) == f"<p>--x <code>{code}</code></p>"


def test_pictures_of_the_site_lead_to_themselves():
    picture = '<img alt="x" src="../plots/a.png" />'
    assert load("hooks").link_pictures(picture) == f'<a href="../plots/a.png">{picture}</a>'
