"""Docstrings of this project in Markdown; imported by reference.py."""

import inspect
import re
import textwrap
from collections.abc import Callable

SECTIONS = ("Args", "Raises", "Returns")


def signature(name: str, thing: Callable) -> str:
    """How a function is called, without the types of its arguments."""
    parameters = list(inspect.signature(thing).parameters.values())
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in parameters
        if parameter.name != "self"
    ]
    return f"{name}{inspect.Signature(bare)}"


def to_markdown(thing: object) -> str:
    """A docstring: its paragraphs, then its sections as lists.

    Raises:
        ValueError: there is no docstring.
    """
    text = inspect.getdoc(thing)
    if not text:
        raise ValueError(f"{thing}: no docstring")
    headings = "|".join(SECTIONS)
    prose, *sections = re.split(rf"^({headings}):\n", text, flags=re.MULTILINE)
    parts = [prose.strip()]
    for heading, body in zip(sections[::2], sections[1::2]):
        parts.append(f"{heading}:\n\n" + "\n".join(f"* {entry}" for entry in entries(body)))
    return "\n\n".join(parts) + "\n"


def entries(body: str) -> list[str]:
    """The entries of a section, one line each, with the name in front set as code."""
    lines = textwrap.dedent(body).splitlines()
    merged: list[str] = []
    for line in filter(str.strip, lines):
        if line.startswith(" ") and merged:
            merged[-1] += f" {line.strip()}"
        else:
            merged.append(line)
    return [re.sub(r"^(\*{0,2}\w+):", r"`\1`:", entry) for entry in merged]
