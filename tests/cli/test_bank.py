"""pet-fairseq bank as a user types it: killed while building, damaged files, and in generation."""

import math
import shutil
import signal

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.options import SelfCpConfig
from tests.cli.processes import REPO, in_process, run, start
from tests.selfcp.bank.test_demonstrations import logits_slowly, make_records, write_split
from tests.selfcp.test_model import TINY
from tests.translation import save_model, save_state

SIZE = 600
TEST = 6
BLOCK = ("--block", "2")


def save_selfcp(path, task, backbone, seed):
    """An untrained model as fairseq writes it."""
    torch.manual_seed(seed)
    cfg = SelfCpConfig(backbone_path=backbone, window=7, memory_ratio=3)
    model = SelfCpModel.build_model(cfg, task)
    task_options = {
        **{"_name": "selfcp", "data": str(path.parent), "memory_ratio_range": ""},
        **{"train_subset": "train", "seed": 1},
    }
    save_state(path, model, {**vars(cfg), "_name": "selfcp"}, task_options)


@pytest.fixture(scope="module")
def records():
    made = {"train": make_records(SIZE, 0), "more": make_records(9, 1)}
    return made | {"test": make_records(TEST, 2, longest=20)}


@pytest.fixture(scope="module")
def folder(records, tmp_path_factory):
    """Data; a model, one with another connector, and one with another backbone."""
    folder = tmp_path_factory.mktemp("bank")
    words = Dictionary()
    for i in range(14):
        words.add_symbol(f"w{i}", n=20 - i)
    words.save(str(folder / "dict.txt"))
    for split, rows in records.items():
        write_split(folder, split, rows)
    cfg = LanguageModelingConfig(data=str(folder), tokens_per_sample=64)
    task = LanguageModelingTask.setup_task(cfg)
    backbones = []
    for name, seed in (("lm.pt", 1), ("other_lm.pt", 2)):
        torch.manual_seed(seed)
        backbones.append(save_model(folder / name, task, "transformer_lm", **TINY))
    save_selfcp(folder / "selfcp.pt", task, backbones[0], seed=3)
    save_selfcp(folder / "other_connector.pt", task, backbones[0], seed=4)
    save_selfcp(folder / "other_backbone.pt", task, backbones[1], seed=3)
    return folder


def bank(action, folder, bank, *more, path="selfcp.pt", run=in_process):
    option = "--out" if action == "build" else "--bank"
    return run("bank", action, folder / path, option, bank, "--data", folder, *more)


def process(*args):
    """In a process of its own."""
    return run("pet-fairseq", *args, check=False)


def ok(result):
    assert result.status == 0, result.output[-3000:]
    return result.output


def search(folder, bank_folder, *more, **options):
    """Lines of hits without what fairseq logs."""
    output = ok(bank("search", folder, bank_folder, "--sentences", TEST, *more, **options))
    return [line for line in output.splitlines() if "\t" in line]


@pytest.fixture(scope="module")
def built(folder):
    ok(bank("build", folder, folder / "bank", *BLOCK, run=process))
    return folder / "bank"


def refused(result, *texts):
    """Failed with one line of error, the last one, that holds the texts."""
    assert result.status != 0 and "Traceback" not in result.output
    line = result.output.splitlines()[-1]
    assert "error: " in line
    for text in texts:
        assert str(text) in line


# --- building -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kill_while_building(folder, built, tmp_path):
    """kill -9 in the middle, several times; each time building goes on, to the same bank."""
    made = []
    command = ("bank", "build", folder / "selfcp.pt", "--out", tmp_path, *BLOCK)
    for _ in range(2):
        started = start("pet-fairseq", *command, "--data", folder)
        for line in started.stdout:
            if line.endswith(f"of {SIZE} demonstrations\n"):
                break
        started.send_signal(signal.SIGKILL)
        started.communicate()
        assert started.returncode == -signal.SIGKILL
        info = ok(in_process("bank", "info", tmp_path, "--verify"))
        assert "unfinished, holds" in info
        made.append(int(info.split(" demonstrations, ")[0].split()[-1]))
    assert made == sorted(set(made)) and made[0] > 0 and made[-1] < SIZE
    refused(bank("search", folder, tmp_path), tmp_path, "unfinished, holds", "again")
    log = ok(bank("build", folder, tmp_path, *BLOCK, run=process))
    assert f"{SIZE - made[-1]} demonstrations added, {made[-1]} were there" in log
    assert search(folder, tmp_path) == search(folder, built)
    for path in built.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    info = ok(in_process("bank", "info", tmp_path, "--verify"))
    assert f"{SIZE} demonstrations, " in info and "every byte verified" in info
    assert "unfinished" not in info


def test_building_again_does_nothing(folder, built):
    before = {path.name: path.read_bytes() for path in built.iterdir()}
    log = ok(bank("build", folder, built))
    assert f"0 demonstrations added, {SIZE} were there" in log
    assert {path.name: path.read_bytes() for path in built.iterdir()} == before


def test_add(folder, built, tmp_path):
    more = shutil.copytree(built, tmp_path / "bank")
    log = ok(bank("add", folder, more, "--subset", "more"))
    assert "9 demonstrations added, 0 were there" in log
    again = ok(bank("add", folder, more, "--subset", "more"))
    assert "0 demonstrations added, 9 were there" in again
    info = ok(in_process("bank", "info", more, "--verify"))
    assert f"{SIZE + 9} demonstrations, " in info and f"from more of {folder}: 9, " in info
    found = search(folder, more, "--subset", "more", "--shots", SIZE + 9)
    numbers = [[int(hit.split(":")[0]) for hit in line.split("\t")[1:]] for line in found]
    for i, some in enumerate(numbers):
        assert sorted([*some, SIZE + i]) == list(range(SIZE + 9))  # all but itself


def test_search(folder, built):
    found = search(folder, built, "--shots", "3")
    assert len(found) == TEST
    for i, line in enumerate(found):
        number, *hits = line.split("\t")
        cosines = [float(hit.split(":")[1]) for hit in hits]
        assert int(number) == i and len(hits) == 3
        assert cosines == sorted(cosines, reverse=True) and max(cosines) <= 1


# --- generation -----------------------------------------------------------------------------------


def generate(folder, path, overrides, check=True):
    return run(
        *("fairseq-generate", folder, "--user-dir", REPO / "pet_fairseq", "--cpu"),
        *("--task", "selfcp", "--path", folder / path, "--beam", "2", "--max-len-b", "5"),
        *("--required-batch-size-multiple", "1", "--model-overrides", overrides),
        check=check,
    )


def hypotheses(result):
    """Tokens and their scores in nats, in the order of the test set."""
    lines = {fields[0]: fields[-1].split() for fields in result.printed("HP")}
    return [
        (lines[f"H-{i}"], [math.log(2) * float(x) for x in lines[f"P-{i}"]]) for i in range(TEST)
    ]


@pytest.mark.slow
def test_generation(folder, built, records):
    """Scores are those of the memory laid out by hand."""
    found = hypotheses(generate(folder, "selfcp.pt", str({"bank": str(built), "shots": 3})))
    model, task = load_model(str(folder / "selfcp.pt"), "CHECKPOINT", str(folder))
    for (words, scores), (query, prompt, _) in zip(found, records["test"]):
        response = [task.dictionary.index(word) for word in words]
        with torch.no_grad():
            logits = logits_slowly(model, records["train"], [query, prompt, response], 3)
        expected = logits.log_softmax(dim=-1)[range(len(words) + 1), [*response, 2]]
        assert scores == pytest.approx(expected.tolist(), abs=2e-4)


def test_without_shots_it_is_as_without_a_bank(folder, built):
    found = generate(folder, "selfcp.pt", str({"bank": str(built), "shots": 0}))
    assert hypotheses(found) == hypotheses(generate(folder, "selfcp.pt", "{}"))


def test_generation_with_the_bank_of_another_model(folder, built):
    result = generate(folder, "other_connector.pt", str({"bank": str(built)}), check=False)
    refused(result, built, "built with another memory tag and connector")


def test_generation_with_a_damaged_bank(folder, built, tmp_path):
    damaged = shutil.copytree(built, tmp_path / "bank")
    flip(damaged / "memory.f32", every=16)  # the first number of each memory token
    overrides = str({"bank": str(damaged), "shots": 2})
    refused(generate(folder, "selfcp.pt", overrides, check=False), "memory.f32: damaged")


# --- bad input ------------------------------------------------------------------------------------


def flip(path, every=None):
    """Flip a bit of the byte in the middle, or of every so many-th float."""
    data = bytearray(path.read_bytes())
    for place in [len(data) // 2] if every is None else range(0, len(data), 4 * every):
        data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("action", ["search", "add", "build"])
@pytest.mark.parametrize("name", ["other_connector", "other_backbone"])
def test_another_model(action, name, folder, built):
    result = bank(action, folder, built, path=f"{name}.pt")
    what = "memory tag and connector" if name == "other_connector" else "backbone"
    refused(result, built, f"built with another {what}", "give the bank of this model")


@pytest.mark.parametrize("name", ["first.f32", "index.bin", "bank.json"])
@pytest.mark.parametrize("action", ["search", "add", "build", "info"])
def test_a_damaged_file(name, action, folder, built, tmp_path):
    damaged = shutil.copytree(built, tmp_path / "bank")
    flip(damaged / name)
    result = (
        in_process("bank", "info", damaged) if action == "info" else bank(action, folder, damaged)
    )
    refused(result, damaged / name, "damaged; build the bank anew")


@pytest.mark.parametrize("name", ["first.f32", "index.bin", "memory.f32", "bank.json"])
def test_a_file_cut_short(name, folder, built, tmp_path):
    short = shutil.copytree(built, tmp_path / "bank")
    (short / name).write_bytes((short / name).read_bytes()[:-3])
    refused(bank("search", folder, short), short / name, "build the bank anew")


def test_verify(built, tmp_path):
    damaged = shutil.copytree(built, tmp_path / "bank")
    flip(damaged / "memory.f32")
    assert "see --verify" in ok(in_process("bank", "info", damaged))
    result = in_process("bank", "info", damaged, "--verify")
    refused(result, damaged / "memory.f32", "damaged (memory of demonstration")


def test_no_bank(folder, tmp_path):
    refused(bank("search", folder, tmp_path), tmp_path, "not a bank", "bank build")
    none = tmp_path / "none"
    refused(bank("add", folder, none), none, "no such folder; make one with")
    (tmp_path / "mine.txt").write_text("mine")
    refused(bank("build", folder, tmp_path), tmp_path, "holds other files (mine.txt)")
    refused(
        bank("build", folder, folder / "dict.txt"),
        *("--out", folder / "dict.txt", "is a file"),
    )


@pytest.mark.parametrize(
    "more, texts",
    [
        (("--subset", "none"), ("--subset none: not in",)),
        (("--memory-ratio", "0.5"), ("--memory-ratio 0.5: give 1 or more",)),
        (("--block", "0"), ("--block 0: give 1 or more",)),
        (("--data", "none"), ("--data none: no such folder",)),
    ],
)
def test_bad_options(more, texts, folder, tmp_path):
    refused(bank("build", folder, tmp_path / "bank", *more), *texts)
    assert not (tmp_path / "bank").exists()


def test_a_file_that_is_no_selfcp_model(folder, tmp_path):
    result = bank("build", folder, tmp_path / "bank", path="/none.pt")
    refused(result, "CHECKPOINT /none.pt: no such file")
    result = bank("build", folder, tmp_path / "bank", path="lm.pt")
    refused(result, f"CHECKPOINT {folder / 'lm.pt'}: give a file of --arch selfcp")
    assert not (tmp_path / "bank").exists()
