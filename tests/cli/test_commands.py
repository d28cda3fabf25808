"""The command pet-fairseq."""

import os
import subprocess
import sys
from argparse import Namespace
from importlib import metadata
from typing import Optional

import pytest

from pet_fairseq import cli
from pet_fairseq.cli_command import Command, Group
from pet_fairseq.errors import UserError
from tests.cli.processes import REPO, in_process, refusal, run
from tests.recipes import RECIPES
from tests.recipes.paper import parser as recipe_parser
from tests.translation import make_task, save_model

HEAVY = ("torch", "fairseq", "matplotlib", "sacrebleu", "numpy")  # what takes seconds to import
PRINT_EVERY_HELP = f"""
import contextlib, sys
from pet_fairseq import cli
names = [c.name for c in cli.COMMANDS.values() if c.name != "train-bf16"]  # help of fairseq's own
for words in ([], *(name.split() for name in names)):
    with contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
print("loaded:", *(module for module in {HEAVY} if module in sys.modules))
"""
REGISTER_LATE = """
import sys
import pet_fairseq
assert "fairseq" not in sys.modules
from fairseq.models import ARCH_MODEL_REGISTRY
assert "pet_transformer" not in ARCH_MODEL_REGISTRY
pet_fairseq.from_pretrained
assert "pet_transformer" in ARCH_MODEL_REGISTRY
"""


@pytest.mark.cold
def test_user_dir():
    assert run("pet-fairseq", "user-dir").output.splitlines()[-1] == str(REPO / "pet_fairseq")


@pytest.mark.parametrize("word", ["user-dir", "--help"])
def test_ends_without_a_word_where_nobody_reads(word):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pet_fairseq.cli", word]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=REPO)
    os.close(writer)
    assert (done.returncode, done.stderr) == (cli.READER_GONE, "")


def test_ctrl_c_ends_in_one_line(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    command = Command("wait", None, "", None, interrupted, needs_models=False)
    monkeypatch.setattr(cli, "parse", lambda words: (command, None))
    assert cli.main(["wait"]) == 130
    assert capsys.readouterr().err == "pet-fairseq wait: error: interrupted\n"


def test_params_of_the_named_architecture():
    """2,997,120 of 31,543,296 layer parameters: the thesis's 9.5% (Table 4)."""
    out = run("pet-fairseq", "params", "--arch", "pet_transformer_iwslt_de_en").output
    assert "2,997,120" in out and "31,543,296" in out and "9.50%" in out
    assert "158,880,000" in out and "80.09%" in out
    arch = ("--arch", "pet_transformer_iwslt_de_en")
    assert "sentences of 17 tokens" in run("pet-fairseq", "params", *arch, "--length", 17).output


def test_params_beside_a_model_that_is_no_transformer(tmp_path):
    path = save_model(tmp_path / "lstm.pt", make_task(tmp_path / "data"), "lstm")
    out = in_process("params", "--arch", "pet_transformer_iwslt_de_en", "--reference", path)
    assert out.status == 0 and "multiply-adds: counted for Transformers only" in out.output


def test_params_of_checkpoints(student, teacher):
    checkpoint = student[0] / "checkpoint_best.pt"
    out = run("pet-fairseq", "params", checkpoint, "--reference", teacher).output
    assert "159,104" in out and "134,400" in out and "118.38%" in out


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.04, 23.3])
def test_target_rate_lists_widths_that_reach_it(rate):
    arch = ("--arch", "pet_transformer_iwslt_de_en")
    out = run("pet-fairseq", "params", *arch, "--rate", rate).output
    best = next(line for line in out.splitlines() if "--encoder-embed-dim" in line)
    assert float(best.split()[0]) == pytest.approx(rate, abs=0.5)
    listed = [line for line in out.splitlines() if "--encoder-embed-dim" in line]
    assert len(listed) == len(set(listed))
    again = run("pet-fairseq", "params", *arch, *best.split()[2:]).output
    assert best.split()[1] in again  # the listed options do make that many parameters


def test_wrong_calls(tmp_path):
    assert "no such file" in refusal("params", tmp_path / "none.pt")
    assert "--arch" in refusal("params")
    assert "not an encoder-decoder" in refusal("params", "--arch", "transformer_lm")
    assert refusal("params", "--arch", "none").endswith("--arch/-a: invalid choice: 'none'")
    line = refusal("params", "--arch", "transfomer")
    assert line.endswith("invalid choice: 'transfomer', did you mean transformer?")
    assert "--rate" in refusal("params", "--arch", "pet_transformer", "--rate", "0")
    assert "--reference nothing" in refusal(
        "params", "--arch", "transformer", "--reference", "nothing"
    )
    assert "no such folder" in refusal("repair", tmp_path / "none")
    assert "--train-size" in refusal("demo-data", tmp_path / "demo", "--train-size", "0")
    assert "--pieces" in refusal("demo-data", tmp_path / "demo", "--pieces", "0")
    assert not (tmp_path / "demo").exists()


def test_demo_data(tmp_path):
    sizes = ("--train-size", "50", "--valid-size", "5", "--test-size", "7", "--pieces", "150")
    printed = run("pet-fairseq", "demo-data", tmp_path / "demo", *sizes)
    assert "CC BY 2.0 FR" in printed.output
    expected = {"train": 50, "valid": 5, "test": 7}
    for kind in ("raw", "pieces"):
        files = (tmp_path / "demo" / kind).iterdir()
        lines = {path.name: len(path.read_text().splitlines()) for path in files}
        assert lines == {f"{s}.{lang}": n for s, n in expected.items() for lang in ("fi", "en")}
    assert "exists already" in refusal("demo-data", tmp_path / "demo")


def python(code: str) -> str:
    """What Python prints for some code, run in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout


def test_every_help_is_light():
    out = python(PRINT_EVERY_HELP)
    for name in cli.COMMANDS.keys() - {"train-bf16"}:
        assert f"usage: pet-fairseq {name} " in out
    assert out.splitlines()[-1].split() == ["loaded:"]


@pytest.mark.slow
def test_a_late_fairseq_is_registered_on_demand():
    python(REGISTER_LATE)


def test_the_overview_has_one_line_for_each_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert not stop.value.code
    lines = capsys.readouterr().out.splitlines()
    for name, command in cli.COMMANDS.items():
        if command.group is None:
            assert not any(line.startswith(f"  {name} ") for line in lines)
            continue
        (number,) = [i for i, line in enumerate(lines) if line.startswith(f"  {name} ")]
        assert lines[number].endswith(command.help) and len(lines[number]) <= 100
        headings = [line for line in lines[:number] if line.endswith(":")]
        assert headings[-1] == f"{command.group.value}:"


def test_the_overview_begins_with_the_main_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines[lines.index(f"{Group.MAIN.value}:") + 1 :] if line]
    assert names[:6] == ["compress", "translate", "predict", "serve", "export", "Recipes:"]


def test_what_is_suggested_is_there():
    families = {name.split()[0] for name in cli.COMMANDS}
    assert {meant.split()[0].strip(",") for meant in cli.MEANT.values()} <= families


def test_no_two_commands_have_one_name():
    assert len(cli.COMMANDS) == sum(len(room.COMMANDS) for room in cli.ROOMS)


def test_every_argument_is_explained():
    parsers = [c.parser() for c in cli.COMMANDS.values() if c.add_arguments is not None]
    parsers += map(recipe_parser, RECIPES)
    silent = [
        f"{parser.prog} {action.option_strings or action.metavar}"
        for parser in parsers
        for action in parser._actions
        if not action.help
    ]
    assert parsers and not silent


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["--version"])
    assert not exit_.value.code
    assert capsys.readouterr().out == f"pet-fairseq {metadata.version('pet-fairseq')}\n"


def test_the_overview_of_a_family(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bank", "--help"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line.split()[:2] for line in lines] == [
        ["bank", action] for action in ("build", "add", "search", "info")
    ]


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "pet-fairseq: error: no command was given"),
        (["parms"], "pet-fairseq: error: parms: no such command, did you mean params?"),
        (["x"], "pet-fairseq: error: x: no such command; see"),
        (["distill"], "distill: no such command, did you mean compress?; see"),
        (["quantize", "m.pt"], "quantize: no such command, did you mean export --precision int8?;"),
        (["evaluate"], "evaluate: no such command, did you mean score?; see"),
        (["generate"], "generate: no such command, did you mean translate?; see"),
        (["train"], "train: no such command, did you mean compress, or fairseq-train --user-dir"),
        (["convert"], "convert: no such command, did you mean export, or import-hf?; see"),
        (["translat"], "translat: no such command, did you mean translate?; see"),
        (["bank"], "pet-fairseq: error: bank: no such command; give one of build, add"),
        (["bank", "burn"], "pet-fairseq: error: bank burn: no such command; give one of build, "),
        (["demo-data", "x", "--sead", "1"], "error: unrecognized arguments: --sead 1; see pet-f"),
        (["report", "x"], "pet-fairseq report: error: the following arguments are required: --r"),
    ],
)
def test_a_wrong_command_or_option_is_named_in_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2 and message in line and line.endswith("--help")


EXPORT = "export m --data D --to ctranslate2 --out E"
CHECKPOINT = {  # commands with an old option for their model, in front of which it is now
    "serve --path m": "serve m",
    "choose --data D --candidates a b --path=m": "choose m --data D --candidates a b",
    "memory-map --path m --data D --out O": "memory-map m --data D --out O",
    "bank build --path m --data D --out O": "bank build m --data D --out O",
    "bank add --bank B --path m --data D": "bank add m --bank B --data D",
    "bank search --bank B --path m --data D": "bank search m --bank B --data D",
    "neurons --data D --checkpoint a:b": "neurons a:b --data D",
    "suggest-pairs --data D --checkpoint m": "suggest-pairs m --data D",
    "sample-heads --checkpoint m --data D --heads 2 --out O": (
        "sample-heads m --data D --heads 2 --out O"
    ),
    "new-plugins --backbone-path m --out O": "new-plugins m --out O",
}
OLD = {  # commands with another old option, and the present one
    "serve m --bf16 --port 0": ("serve m --precision bf16 --port 0", "--bf16", "--precision bf16"),
    "predict m --input - --fp16": (
        *("predict m --input - --precision fp16", "--fp16", "--precision fp16"),
    ),
    "serve m --int8": ("serve m --precision int8", "--int8", "--precision int8"),
    f"{EXPORT} --quantization int8": (
        *(f"{EXPORT} --precision int8", "--quantization", "--precision"),
    ),
    f"{EXPORT} --quantization=int8": (
        *(f"{EXPORT} --precision int8", "--quantization", "--precision"),
    ),
    "params --target-rate 5 --arch x": ("params --rate 5 --arch x", "--target-rate", "--rate"),
}


def parsed(words: str, capsys) -> tuple:
    """The command, its arguments, and the lines on standard error."""
    command, args = cli.parse(words.split())
    output = capsys.readouterr()
    assert output.out == ""
    return command, args, output.err.splitlines()


@pytest.mark.parametrize("old", [*CHECKPOINT, *OLD])
def test_old_spellings_go_on_working(old, capsys):
    option = next((word for word in old.split() if word.startswith(("--path", "--checkp"))), None)
    default = (CHECKPOINT.get(old), (option or "--backbone-path").partition("=")[0], "CHECKPOINT")
    new, option, present = OLD.get(old, default)
    command, args, said = parsed(old, capsys)
    assert said == [f"pet-fairseq {command.name}: {option} is now {present}"]
    assert (command, args, []) == parsed(new, capsys)


def test_several_old_spellings(capsys):
    _, args, said = parsed("serve --path m --fp16 --path n --beam 2", capsys)
    assert (args.checkpoint, args.precision, args.beam) == ("n", "fp16", 2)
    assert [line.split()[2] for line in said] == ["--path", "--fp16", "--path"]


def test_an_old_spelling_without_its_value(capsys):
    with pytest.raises(SystemExit):
        cli.main(["serve", "--path"])
    assert capsys.readouterr().err.splitlines()[-1] == (
        "pet-fairseq serve: error: the following arguments are required: CHECKPOINT; see "
        "pet-fairseq serve --help"
    )


def test_what_means_the_same_is_called_the_same():
    """In every command: where the model runs, in which precision, and what is the model."""
    parsers = [c.parser() for c in cli.COMMANDS.values() if c.add_arguments is not None]
    parsers += [recipe_parser(name) for name in RECIPES]
    for parser in parsers:
        options = parser._option_string_actions
        assert not options.keys() & {"--path", "--checkpoint", "--model-path", "--fp16", "--int8"}
        if "--device" in options:
            assert options["--device"].default == "auto"
        choices = options["--precision"].choices if "--precision" in options else None
        assert choices is None or {"auto", "fp32", "bf16", "fp16"} <= set(choices)


def test_how_a_command_runs(monkeypatch, capsys):
    """Its arguments reach it; what it raises becomes one line, what it returns the exit status."""

    def cook(args: Namespace) -> Optional[int]:
        if args.dish == "soup":
            raise UserError("soup: the pot is missing")
        return args.minutes

    def add_arguments(parser):
        parser.add_argument("dish")
        parser.add_argument("--minutes", type=int)

    fields = dict(group=Group.SETUP, help="cook", add_arguments=add_arguments, run=cook)
    cooking = Command(name="kitchen cook", needs_models=False, **fields)
    loose = Command(name="kitchen try", needs_models=False, keeps_rest=True, **fields)
    monkeypatch.setattr(cli, "COMMANDS", {c.name: c for c in (cooking, loose)})
    assert cli.main(["kitchen", "cook", "rice"]) == 0
    assert cli.main(["kitchen", "cook", "rice", "--minutes", "3"]) == 3
    assert cli.main(["kitchen", "cook", "soup"]) == 1
    assert capsys.readouterr().err == "pet-fairseq kitchen cook: error: soup: the pot is missing\n"
    command, args = cli.parse(["kitchen", "try", "rice", "--min", "4", "--salt"])
    assert command is loose and args.rest == ["--min", "4", "--salt"] and args.minutes is None
