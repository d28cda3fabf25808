"""Tables of a parser's options in Markdown; imported by reference.py and components.py."""

import argparse
import html
import re
from collections.abc import Iterable, Mapping
from typing import Any, Optional

from pet_fairseq.markdown import table

NO_GROUPS = {"positional arguments", "options"}  # argparse's own
VALUES: dict[Any, str] = {int: "N", float: "X"}  # the name of a value that has none


Rows = list[list[str]]


def parser_tables(parser: argparse.ArgumentParser) -> str:
    """All arguments of a parser, a table for each of its groups."""
    return tables(parser_rows(parser))


def tables(groups: Mapping[str, Rows]) -> str:
    """A table for each group, with its title if it has one."""
    parts = []
    for title, rows in groups.items():
        parts += [f"{title}:\n"] if title else []
        parts.append(table(["option", "meaning"], rows, text=(0, 1)))
    return "\n".join(parts)


def parser_rows(parser: argparse.ArgumentParser) -> dict[str, Rows]:
    """The rows of each group of arguments by its title; argparse's own groups have none."""
    groups: dict[str, Rows] = {}
    for group in parser._action_groups:
        given = group.title or ""
        title = "" if given in NO_GROUPS else escape(given[:1].upper() + given[1:])
        rows = action_rows(parser, group._group_actions)
        if rows:
            groups.setdefault(title, []).extend(rows)
    return groups


def action_rows(
    parser: argparse.ArgumentParser,
    actions: Iterable[argparse.Action],
    defaults: Optional[Mapping[str, Any]] = None,
) -> Rows:
    """A row for each argument; `defaults` has values in place of the parser's own."""
    return [
        [name_of(action), help_of(parser, action, (defaults or {}).get(action.dest))]
        for action in actions
        if action.dest != "help" and action.help != argparse.SUPPRESS
    ]


def merge_rows(parsers: Iterable[argparse.ArgumentParser]) -> dict[str, Rows]:
    """The rows of parsers with the same arguments; a default that differs is the recipe's own."""
    first, *others = [parser_rows(parser) for parser in parsers]
    return {
        title: [
            row
            if all(row == other[title][i] for other in others)
            else [row[0], own_default(row[1])]
            for i, row in enumerate(rows)
        ]
        for title, rows in first.items()
    }


def own_default(text: str) -> str:
    """The help of an argument without the value of its default."""
    return re.sub(r"\(default: [^)]*\)|Default: `[^`]*`\.", "(default: the recipe's own)", text)


def name_of(action: argparse.Action) -> str:
    """What is typed: the option's names and the name of its value."""
    value = value_of(action)
    if not action.option_strings:
        return f"`{value}`"
    names = [f"`{name}`" for name in action.option_strings]
    return ", ".join(
        [*names[:-1], f"`{action.option_strings[-1]} {value}`" if value else names[-1]]
    )


def value_of(action: argparse.Action) -> str:
    """The name of an argument's value, with dots where there may be several; empty for none."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    kind = "NAME" if action.choices is not None else VALUES.get(action.type, "VALUE")
    name = action.metavar or (kind if action.option_strings else action.dest.upper())
    return f"{name}..." if action.nargs in ("+", "*") or isinstance(action.nargs, int) else name


def help_of(parser: argparse.ArgumentParser, action: argparse.Action, default: Any = None) -> str:
    """The help of an argument, and what it does not say itself: choices, default, required."""
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    parts = [escape(" ".join(text.split()))]
    if action.choices is not None:
        parts.append("One of " + ", ".join(f"`{choice}`" for choice in action.choices) + ".")
    default = action.default if default is None else default
    if action.option_strings and action.required:
        parts.append("Required.")
    elif action.option_strings and "default" not in text and tells(default):
        parts.append(f"Default: `{written(default)}`.")
    first, *more = [part for part in parts if part] or [""]
    return " ".join([f"{first}." if more and first[-1:] not in ".`" else first, *more])


def tells(default: Any) -> bool:
    """Whether a default says more than that an option may be left out."""
    return not (
        default is None
        or default is False
        or default is argparse.SUPPRESS
        or (isinstance(default, (str, list, tuple)) and not default)
    )


def written(default: Any) -> str:
    """A default as it would be typed."""
    return " ".join(map(str, default)) if isinstance(default, (list, tuple)) else str(default)


def escape(text: str) -> str:
    """Text that Markdown shows as it is; what stands between backticks is code already."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else escape_signs(part) for part in parts)


def escape_signs(text: str) -> str:
    text = html.escape(text, quote=False)
    for sign in "*_[]`":
        text = text.replace(sign, f"\\{sign}")
    return text
