"""The demo: the teacher that comes with the package, how it is made, and what `make demo` does."""

import re
import shutil
import subprocess

import pytest
import torch

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.demo.corpus import SIDES, write_corpus
from pet_fairseq.quantisation.packing import unpack_model
from tests.cli.processes import REPO, refusal, run
from tests.cli.shell import sh
from tests.packages import need

MAKE, DEMO = "scripts/demo_teacher.sh", "scripts/demo.sh"
FORMS = ("ctranslate2", "huggingface", "onnx")
TEXT = "Tom piti sanansa.\nTom on täällä.\n"


def test_the_teacher_is_a_folder_that_translates(tmp_path):
    folder = tmp_path / "new" / "teacher"
    printed = run("pet-fairseq", "demo-teacher", folder).output
    assert printed == f"wrote {folder}: a teacher, Finnish to English, for short sentences\n"
    files = {"model.pt", "dict.fi.txt", "dict.en.txt", "spm.model"}
    assert {file.name for file in folder.iterdir()} == files
    words = [(folder / f"dict.{side}.txt").read_bytes() for side in SIDES]
    assert words[0] == words[1]  # one dictionary for both: every engine takes its students
    spoken = run("pet-fairseq", "translate", folder, "--device", "cpu", text_in=TEXT).output
    assert len(spoken.splitlines()) == 2
    assert "is there already" in refusal("demo-teacher", folder)


def test_the_scripts_commands_are_the_documented_ones(tmp_path):
    """`make demo` runs what docs/start.md shows, block for block."""
    page = (REPO / "docs/start.md").read_text().replace("\\\n", " ")
    (block,) = re.findall(
        r"^```\n(pet-fairseq demo-teacher .*?)^```", page, re.DOTALL | re.MULTILINE
    )
    shown = [command.split() for command in block.splitlines()]
    out = tmp_path / "out"
    printed = sh(DEMO, DRY_RUN="1", OUT=str(out)).stdout.replace(str(out), "runs/start")
    ran = [line[2:].split() for line in printed.splitlines() if line.startswith("+ ")]
    assert ran == shown


@pytest.mark.parametrize(
    "given, options", [([], ""), (["UPDATES=1800"], " --updates 1800")], ids=["as it is", "shorter"]
)
def test_make_demo_runs_the_script(given, options):
    command = ["make", "--dry-run", "--directory", str(REPO), "demo", *given]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"scripts/demo.sh{options}" in map(str.strip, printed.splitlines())


@pytest.mark.slow
def test_the_demo(tmp_path):
    """All of it on little text: the student in all forms, ten sentences, the page's address."""
    need("ctranslate2", "transformers", "onnxscript", "onnxruntime")
    out = tmp_path / "out"
    sizes = {"train": 200, "valid": 20, "test": 30}
    write_corpus(out / "text", sizes, 300)  # in place of all sentences
    printed = sh(DEMO, "--updates", "2", OUT=str(out)).stdout
    first = (out / "small/report.md").read_text().splitlines()[0]
    assert re.search(r" MB -> .* BLEU .* sentences/s ", first)
    assert printed.count(first) == 2  # of compress, and of the report
    assert printed.index("\nteacher: BLEU ") < printed.index("\n== training")
    shown = printed[printed.index("## Samples") :].split("## Files")[0]
    assert len(re.findall(r"^\| ", shown, re.MULTILINE)) == 2 + 10  # with the header
    assert all((out / "small" / form).is_dir() for form in FORMS)
    assert f"examples/browser/?model=../../{out}/small/onnx" in printed.splitlines()[-1]
    again = sh(DEMO, "--updates", "2", OUT=str(out)).stdout
    assert "== teacher: done before" in again and "== training: done before" in again
    spoken = run("pet-fairseq", "translate", out / "small", "--device", "cpu", text_in=TEXT).output
    assert len(spoken.splitlines()) == 2


@pytest.mark.slow
def test_the_command_that_makes_the_teacher(tmp_path):
    """Out of the packed file comes the trained model, rounded to 8 bits, with its pieces."""
    runs, made = tmp_path / "runs", tmp_path / "made"
    made.mkdir()
    options = ("--size", "tiny", "--teacher-options", "--max-update 2")
    sh(MAKE, runs, *options, OUT=str(made))
    assert {file.name for file in made.iterdir()} == {"teacher.packed", "teacher.spm.model"}
    pieces = {"spm.model": made / "teacher.spm.model"}
    unpack_model(str(made / "teacher.packed"), tmp_path / "teacher", pieces)
    before, after = (
        load_checkpoint(str(path), "CHECKPOINT")["model"]
        for path in (runs / "teacher/checkpoint_best.pt", tmp_path / "teacher/model.pt")
    )
    assert before.keys() == after.keys()
    for name, value in before.items():
        largest = value.abs().max().item()
        torch.testing.assert_close(after[name], value, rtol=0, atol=0.005 * largest, msg=name)
    shutil.rmtree(runs)  # the folder has all that it needs
    folder = tmp_path / "teacher"
    spoken = run("pet-fairseq", "translate", folder, "--device", "cpu", text_in=TEXT).output
    assert len(spoken.splitlines()) == 2


def test_the_script_asks_for_a_folder():
    result = sh(MAKE, check=False)
    assert result.returncode == 1 and "give a folder for the training" in result.stderr
