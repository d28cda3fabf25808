#!/usr/bin/env python3
"""Writes docs/reference/ from the code: every command, every component of fairseq, Python.

    python scripts/docs/reference.py [--check]

With --check it writes nothing, and fails if a page differs from what it would write.
"""

import sys
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import fairseq  # noqa: F401  the package registers its models when fairseq is loaded

import pet_fairseq
from pet_fairseq.cli import COMMANDS
from pet_fairseq.cli_command import Command, Group
from pet_fairseq.errors import UserError
from pet_fairseq.markdown import table
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.recipes.catalogue import BESIDE_THE_PACKAGE, load_recipes
from pet_fairseq.recipes.commands import recipe_parser

pet_fairseq.register()
from components import components_page  # noqa: E402
from docstrings import signature, to_markdown  # noqa: E402
from option_tables import escape, merge_rows, parser_tables, tables  # noqa: E402

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"
GENERATED = "<!-- Written by scripts/docs/reference.py from the code: change the code. -->\n\n"
RECIPE = "recipe"  # the command whose options depend on its first word


def pages() -> dict[str, str]:
    """Every page by its file name."""
    groups = {file_of(group): group_page(group) for group in Group}
    texts = {"README.md": overview(), "fairseq.md": components_page(), "python.md": python_page()}
    return {name: GENERATED + text for name, text in {**groups, **texts}.items()}


def file_of(group: Group) -> str:
    return f"{group.name.lower()}.md"


def members(group: Group) -> list[Command]:
    return [command for command in COMMANDS.values() if command.group is group]


def anchor(command: Command) -> str:
    return f"pet-fairseq-{command.name.replace(' ', '-')}"


# --- commands -------------------------------------------------------------------------------------


def overview() -> str:
    """The first page: every command with a line, and where the rest is."""
    parts = [
        "# Reference\n",
        "* [What fairseq gets](fairseq.md): models, criteria, tasks and optimizers, with their "
        "options for `fairseq-train`, `fairseq-generate`, `fairseq-interactive` and "
        "`fairseq-validate`.\n* [Python](python.md): `pet_fairseq.from_pretrained` and what it "
        "returns.\n* The commands of `pet-fairseq`, below. `pet-fairseq COMMAND --help` prints "
        "the same.\n",
    ]
    for group in Group:
        rows = [
            [f"[`{command.name}`]({file_of(group)}#{anchor(command)})", escape(command.help)]
            for command in members(group)
        ]
        parts += [f"## {group.value}\n", table(["command", "what it does"], rows, text=(0, 1))]
    return "\n".join(parts)


def group_page(group: Group) -> str:
    """The commands of one group with their options."""
    parts = [f"# Commands: {group.value}\n"]
    for command in members(group):
        parts += [f"## `pet-fairseq {command.name}`\n", command_section(command)]
    return "\n".join(parts)


def command_section(command: Command) -> str:
    """What a command does and its options."""
    if command.name == RECIPE:
        return f"{sentence(command.help)}\n\n{recipe_sections()}"
    parts = [sentence(command.description or command.help)]
    if command.add_arguments is not None:
        parts.append(parser_tables(command.parser()))
    if command.epilog:
        parts.append(sentence(command.epilog))
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def recipe_sections() -> str:
    """The options of all recipes; those with the same ones stand together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    recipes = load_recipes(BESIDE_THE_PACKAGE)
    parsers = {name: recipe_parser(name, recipe) for name, recipe in recipes.items()}
    for name, parser in parsers.items():
        groups.setdefault(tuple(parser._option_string_actions), []).append(name)
    parts = []
    for names in groups.values():
        parts.append(f"### {', '.join(f'`{name}`' for name in names)}\n")
        parts.append("\n".join(f"* `{name}`: {escape(recipes[name].about)}" for name in names))
        parts.append(f"\n{tables(merge_rows(parsers[name] for name in names))}")
    return "\n".join(parts)


def sentence(text: str) -> str:
    text = escape(" ".join(text.split()))
    return f"{text[0].upper()}{text[1:]}{'' if text[-1] in '.:' else '.'}"


# --- Python ---------------------------------------------------------------------------------------


def python_page() -> str:
    """What a program may import."""
    parts = [
        "# Python\n",
        "`import pet_fairseq` gives what is on this page; all else may change between versions. "
        "[Examples](../decoding.md#pet_fairseqfrom_pretrained).\n",
        function("pet_fairseq.from_pretrained", pet_fairseq.from_pretrained),
        function("pet_fairseq.register", pet_fairseq.register),
        "## Predictor\n",
        "A classifier, as `from_pretrained` returns it.\n",
        *methods(Predictor, ("predict", "to", "ratios")),
        "## pet_fairseq.errors.UserError\n",
        to_markdown(UserError),
        "## Translators\n",
        "A translation model or a language model is fairseq's `GeneratorHubInterface`: "
        "`translate(sentences, beam=5)`, `sample(sentences, beam=1)`, `generate(tokens)`, "
        "`encode(sentence)`, `decode(tokens)`, `score(sentences)`, `.cuda()`, `.half()`.\n",
    ]
    return "\n".join(parts)


def function(name: str, thing) -> str:
    return f"## {name}\n\n```python\n{signature(name, thing)}\n```\n\n{to_markdown(thing)}"


def methods(kind: type, names: Collection[str]) -> list[str]:
    """Some methods and properties of a class."""
    parts = []
    for name in names:
        member = vars(kind)[name]
        if isinstance(member, property):
            parts.append(f"### {kind.__name__}.{name}\n\n{to_markdown(member)}")
            continue
        called = signature(f"{kind.__name__}.{name}", member)
        parts.append(
            f"### {kind.__name__}.{name}\n\n```python\n{called}\n```\n\n{to_markdown(member)}"
        )
    return parts


def main() -> None:
    texts = pages()
    check = "--check" in sys.argv[1:]
    stale = [path.name for path in REFERENCE.glob("*.md") if path.name not in texts]
    for name, text in texts.items():
        path = REFERENCE / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(f"docs/reference: run scripts/docs/reference.py for {', '.join(sorted(stale))}")


if __name__ == "__main__":
    main()
