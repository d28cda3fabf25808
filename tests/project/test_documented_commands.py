"""The commands in the documents exist, with the options and rows that they are shown with."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from fairseq import options as fairseq_options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from pet_fairseq.cli import COMMANDS
from pet_fairseq.recipes.commands import pipeline_of
from pet_fairseq.recipes.translation import recipe
from pet_fairseq.runner.check_options import check_training_options
from pet_fairseq.runner.pipeline import Place
from tests.project import command_blocks
from tests.project.test_documents import DOCUMENTS, REPO
from tests.recipes import RECIPES
from tests.recipes.paper import parser as recipe_parser

OF_THE_SHELL = re.compile(r"[|<>;&()#]+|\d>&?")
PLACEHOLDERS = {"NAME", "NEW", "TASK"}
BLOCK = re.compile(
    r"(?:(<!-- pet-fairseq .*) -->\n+)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
PROGRAMS = re.compile(
    r"(\$ )?(pet-fairseq|fairseq-\w+|make|python|pip|torchrun|curl|echo|for|cat|\.|examples/\S+) "
)
TASKS = {"bert": "sentence_prediction", "smollm2": "language_modeling"}  # of imported models
PARSERS = {
    "train": fairseq_options.get_training_parser,
    "generate": fairseq_options.get_generation_parser,
    "interactive": fairseq_options.get_interactive_generation_parser,
    "validate": fairseq_options.get_validation_parser,
    "preprocess": fairseq_options.get_preprocessing_parser,
}


def texts() -> Iterator[tuple[Path, str]]:
    """The documents that people write; CHANGELOG.md tells of what was there before, too."""
    for path in DOCUMENTS:
        if path.name != "CHANGELOG.md" and path.parent != REPO / "docs/reference":
            yield path.relative_to(REPO), path.read_text(encoding="utf-8")


def documented(start: str):
    """The words of each command that begins so, up to a sign of the shell, and its document."""
    for path, text in texts():
        text = text.replace("\\\n", " ").replace("-->", "\n")
        for command in re.findall(rf"(?<![\w./-]){start} ([a-z][^`\n]*)", text):
            yield path, words_of(command, apostrophes=True)


def words_of(command: str, apostrophes: bool = False) -> list[str]:
    """The words of a command up to a sign of the shell; what the shell would put in is left out.

    Args:
        apostrophes: whether a word may begin with one, as in text, where it quotes nothing.
    """
    for name, task in TASKS.items():
        command = command.replace(f"$(cat {name}/task_options)", f"--task {task}")
    command = re.sub(r"\$\([^()]*\)", "", command)
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>;&()")
    lexer.commenters = "#"
    lexer.wordchars += "@$,:[]{}!" + "'" * apostrophes
    words = []
    for word in lexer:
        if OF_THE_SHELL.fullmatch(word):
            break
        words.append(word)
    return words


def options(words: list[str]) -> list[str]:
    """The options among words; several in one word are what an option hands on to fairseq."""
    return [word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z]\S*", word)]


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
def test_recipes_have_the_documented_rows(tmp_path, monkeypatch):
    stages = []  # of all recipes with options for fairseq-train, which one process reads
    monkeypatch.setattr(recipe, "check_training_options", lambda _, ones: stages.extend(ones))
    (tmp_path / "model_options").write_text("--arch roberta")
    (tmp_path / "classes.txt").write_text("no 1\nyes 1\n")
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
        args = recipe_parser(name).parse_args([*needed, "--device", "cpu", *words])
        for imported in ("bert", "model"):
            if getattr(args, imported, None):
                setattr(args, imported, tmp_path)
        if name == "next_text":  # this row opens the language model, of which there is none here
            args.rows = [row for row in args.rows if row != "lora"]
        if getattr(args, "task", None) == "own":
            args.data = tmp_path
        pipeline_of(RECIPES[name], Place(name, tmp_path), args)
    assert number > 80
    assert stages
    check_training_options("the documents", stages)


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


@pytest.mark.parametrize("folder", command_blocks.SCRIPTS)
def test_every_benchmark_is_run_by_a_test(folder):
    commands = {
        path.name for path in (REPO / folder).glob("*.py") if '"__main__"' in path.read_text()
    }
    assert set(command_blocks.SCRIPTS[folder]) == commands
    for script, test in command_blocks.SCRIPTS[folder].items():
        if test.startswith("tests/"):
            file, name = test.split("::")
            text = (REPO / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text and script in text, test


def test_every_recipe_is_documented():
    documented_names = {Path(words[0]).name for _, words in recipes()}
    assert set(RECIPES) - documented_names - {"demo"} == set()


def own_names() -> set[str]:
    """What fairseq knows by these names only once this package is loaded."""
    known = (ARCH_CONFIG_REGISTRY, MODEL_REGISTRY, CRITERION_REGISTRY, TASK_REGISTRY)
    entries = (item for names in (*known, OPTIMIZER_REGISTRY) for item in names.items())
    return {name for name, entry in entries if entry.__module__.startswith("pet_fairseq.")}


def test_commands_of_fairseq_load_this_package_where_they_need_it():
    """In blocks and in text; dots stand for options that were shown before."""
    program, needed = "fairseq-(?:train|validate|generate|interactive) ", []
    names = own_names() | {"OUT/model_options)"}  # of an imported model
    for document, text in texts():
        text = text.replace("\\\n", " ")
        shown = rf"(?<=`){program}[^`]+|(?:^\s*(?:\$ )?|\| ){program}.+"
        commands = re.findall(shown, text, re.MULTILINE)
        needed += [(document, c) for c in commands if names & set(c.split()) and "..." not in c]
    assert len(needed) > 40
    assert [found for found in needed if "--user-dir" not in found[1]] == []


# --- blocks ---------------------------------------------------------------------------------------


def blocks() -> Iterator[tuple[str, str]]:
    """Every fenced block with commands, and its document.

    Dry runs are left out: tests/recipes/test_readmes.py compares them with what is run.
    """
    for path, text in texts():
        for match in BLOCK.finditer(text):
            dry_run, language, block = match.groups()
            commands = any(PROGRAMS.match(line) for line in block.splitlines())
            if not dry_run and (commands or language == "python"):
                yield str(path), block


def proof(document: str, block: str) -> Optional[str]:
    """What is said about a block: a test, or why there is none; None if nothing is said."""
    for start, text in command_blocks.BLOCKS.get(document, {}).items():
        if block.startswith(start):
            return text
    for start, text in command_blocks.DOCUMENTS.items():
        if document.startswith(start):
            return text
    return None


def test_every_block_is_run_by_a_test_or_says_why_not():
    missing = [
        (document, block.splitlines()[0])
        for document, block in blocks()
        if not proof(document, block)
    ]
    assert missing == []


def test_what_is_said_about_blocks_is_needed():
    """No entry is left over from a block that is gone."""
    shown = list(blocks())
    unused = [
        (document, start)
        for document, starts in command_blocks.BLOCKS.items()
        for start in starts
        if not any(document == path and block.startswith(start) for path, block in shown)
    ]
    assert unused == []


def test_the_tests_that_run_blocks_are_there():
    proofs = {text for starts in command_blocks.BLOCKS.values() for text in starts.values()}
    tests = [
        text for text in {*proofs, *command_blocks.DOCUMENTS.values()} if text.startswith("tests/")
    ]
    assert len(tests) > 20
    for test in tests:
        file, name = test.split("::")
        assert f"def {name}(" in (REPO / file).read_text(encoding="utf-8"), test


def commands_in_blocks(program: str) -> Iterator[tuple[str, list[str]]]:
    """The words of each command of a program in the blocks, without dots for what is left out."""
    for document, block in blocks():
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.findall(rf"(?:^\s*(?:\$ )?|\| *){program} (.*)", line):
                yield document, [word for word in words_of(command) if word != "..."]


def test_commands_in_blocks_are_accepted(capsys):
    """Not only do the options exist: their values fit, and none that is required is missing."""
    wrong, number = [], 0
    for document, words in commands_in_blocks("pet-fairseq"):
        name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        rest = words[len(name.split()) :]
        parser = recipe_parser(Path(rest.pop(0)).name) if name == "recipe" else COMMANDS[name]
        number += 1
        try:
            parser.parse_args(rest) if name == "recipe" else parser.parse(rest)
        except SystemExit:
            wrong.append(f"{document}: {' '.join(words)}: {capsys.readouterr().err}")
    assert number > 40
    assert wrong == []


def test_every_training_ends():
    """fairseq trains for ever without one of these options."""
    lines = [
        (document, line)
        for document, block in blocks()
        for line in block.replace("\\\n", " ").splitlines()
        if re.match(r"fairseq-train ", line) and "..." not in line
    ]
    assert len(lines) > 10
    assert [line for line in lines if not re.search("--max-(update|epoch) ", line[1])] == []


@pytest.mark.parametrize("program", PARSERS)
def test_fairseqs_commands_in_blocks_are_accepted(program, capsys):
    wrong, number = [], 0
    for document, words in commands_in_blocks(f"fairseq-{program}"):
        number += 1
        try:
            unknown = unknown_to_fairseq(program, words)
        except SystemExit:
            wrong.append(f"{document}: {' '.join(words)}: {capsys.readouterr().err}")
            continue
        wrong += [f"{document}: fairseq-{program}: {word}" for word in options(unknown)]
    assert number
    assert wrong == []


def unknown_to_fairseq(program: str, words: list[str]) -> list[str]:
    """What a command of fairseq does not know of the words that follow its name.

    Raises:
        SystemExit: a value does not fit, or something is missing.
    """
    words = [word for word in words if word not in ("--user-dir", "pet_fairseq")]
    parser = PARSERS[program]()
    if program == "preprocess":
        return parser.parse_known_args(words)[1]
    if program == "train" and "--arch" not in words:  # it stands in a file, or in a checkpoint
        words = [*words, "--arch", "transformer"]
    return fairseq_options.parse_args_and_arch(parser, words, parse_known=True)[1]
