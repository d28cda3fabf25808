"""The commands in the documents exist, with the options and rows that they are shown with."""

import re
import shlex
from pathlib import Path

import pytest

from pet_fairseq.cli import COMMANDS
from pet_fairseq.recipes.catalogue import RECIPES
from pet_fairseq.recipes.commands import pipeline_of, recipe_parser
from pet_fairseq.recipes.pipeline import Place
from tests.project.test_documents import DOCUMENTS, REPO

OF_THE_SHELL = re.compile(r"[|<>;&()#]+|\d>&?")
PLACEHOLDERS = {"NAME", "NEW", "TASK"}


def documented(start: str):
    """The words of each command that begins so, up to a sign of the shell, and its document."""
    for path in DOCUMENTS:
        if path.name == "CHANGELOG.md":  # tells of what was there before, too
            continue
        text = path.read_text(encoding="utf-8").replace("\\\n", " ").replace("-->", "\n")
        for command in re.findall(rf"(?<![\w./-]){start} ([a-z][^`\n]*)", text):
            lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>;&()")
            lexer.commenters = "#"
            lexer.wordchars += "@$,:[]'{}!"
            words = []
            for word in lexer:
                if OF_THE_SHELL.fullmatch(word):
                    break
                words.append(word)
            yield path.relative_to(REPO), words


def options(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if re.match("--?[a-z]", word)]


def parser_of(words: list[str]):
    """The parser of a command's options; None if it takes those of fairseq's models as well.

    Raises:
        KeyError: there is no such command.
    """
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    if words[1:] in ([], ["--help"]) and any(
        command.startswith(f"{name} ") for command in COMMANDS
    ):
        return None
    command = COMMANDS[name]
    if name == "recipe" and len(words) > 1 and words[1] not in PLACEHOLDERS:
        return recipe_parser(Path(words[1]).name)
    return None if command.add_arguments is None or command.keeps_rest else command.parser()


def test_commands_and_their_options():
    wrong, number = [], 0
    for document, words in documented("pet-fairseq"):
        number += 1
        try:
            parser = parser_of(words)
        except KeyError:
            wrong.append(f"{document}: pet-fairseq {' '.join(words)}: no such command")
            continue
        known = parser._option_string_actions if parser else options(words)
        wrong += [
            f"{document}: pet-fairseq {words[0]}: {word}"
            for word in options(words)
            if word not in known
        ]
    assert number > 200
    assert wrong == []


def recipes():
    """The documented recipes with options that stand for themselves."""
    for document, words in documented("pet-fairseq"):
        if words[0] == "recipe" and len(words) > 1 and not PLACEHOLDERS & set(words):
            yield document, words[1:]


@pytest.mark.paper
def test_recipes_have_the_documented_rows(tmp_path):
    (tmp_path / "model_options").write_text("--arch roberta")
    number = 0
    for _, (name, *words) in recipes():
        if "--help" in words or "-h" in words:
            continue
        number += 1
        name = Path(name).name
        needed = {
            "glue": ["--task", "sst2"],
            "own_data": ["-s", "de", "-t", "en"],
            "language_model": ["--model", "FOLDER"],
        }.get(name, [])
        args = recipe_parser(name).parse_args([*needed, *words, "--device", "cpu"])
        if getattr(args, "bert", None):
            args.bert = tmp_path
        pipeline_of(Place(name, tmp_path), args)
    assert number > 80


def test_scripts_and_their_options():
    wrong, number = [], 0
    for document, (script, *words) in documented("python"):
        number += 1
        if not (REPO / script).is_file():
            wrong.append(f"{document}: {script}")
            continue
        folder = "\n".join(file.read_text() for file in (REPO / script).parent.glob("*.py"))
        wrong += [
            f"{document}: {script}: {word}" for word in options(words) if f'"{word}"' not in folder
        ]
    assert number > 10
    assert wrong == []


def test_every_recipe_is_documented():
    documented_names = {Path(words[0]).name for _, words in recipes()}
    assert set(RECIPES) - documented_names - {"demo"} == set()
