"""`pet-fairseq prompts` as a user starts it, and a language model trained on what it writes."""

import gzip
import json
import random

import pytest

from pet_fairseq.cli import main
from tests.cli.processes import LANGUAGE_MODELING, TRAIN, refusal, run

SYLLABLES = "ba ko ri sen tul mo fi gar".split()


def records(count, seed):
    """Longer prompts than a small language model takes."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=2)) for _ in range(30)]
    for _ in range(count):
        prompt = " ".join(draw.choices(words, k=draw.randint(0, 60)))
        yield {"query": "what is it", "prompt": prompt, "response": draw.choice(words)}


def write(path, made):
    text = "".join(json.dumps(record) + "\n" for record in made)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with the files, what was said, and BIN."""
    folder = tmp_path_factory.mktemp("prompts")
    files = []
    for seed, (split, size) in enumerate((("train", 120), ("valid", 20), ("test", 5))):
        name = f"{split}.jsonl.gz" if split == "train" else f"{split}.jsonl"
        files += [f"--{split}", write(folder / name, records(size, seed))]
    (folder / "some.txt").write_text("kori bari\n" * 250)
    said = run(
        *("pet-fairseq", "prompts", *files, "--text", folder / "some.txt"),
        *("--vocab-size", "150", "--lm-tokens", "40", "--out", folder / "bin"),
        *("--plot", folder / "bin" / "lengths.png"),
    )
    return folder, said.output, folder / "bin"


def test_summary_and_progress(made):
    folder, said, out = made
    for text in (
        *("reading train.jsonl.gz", "encoding train.jsonl.gz", "encoding some.txt", "100%"),
        *(f"wrote {out}", "train: 120 records", "valid: 20 records", "test: 5 records"),
        *("lm/train: 368 texts", "with a prompt cut at its front", "lm/valid: 22 texts"),
        f"dict.txt: {len((out / 'dict.txt').read_text().splitlines())} pieces",
    ):
        assert text in said
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["bin"]
    assert (out / "lengths.png").read_bytes().startswith(b"\x89PNG")


def test_fairseq_trains_a_language_model_on_it(made, tmp_path):
    _, _, out = made
    log = run(
        *("fairseq-train", out / "lm", *LANGUAGE_MODELING, "--save-dir", tmp_path),
        *("--arch", "transformer_lm"),
        *("--decoder-layers", "1", "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16"),
        *("--decoder-attention-heads", "2", "--share-decoder-input-output-embed", *TRAIN),
        *("--criterion", "cross_entropy", "--max-update", "40"),
    )
    words = len((out / "dict.txt").read_text().splitlines())
    assert f"dictionary: {words + 4} types" in log.output
    losses = log.values("loss", "train")
    assert losses[-1] < losses[0] - 0.5 and log.values("loss", "valid")


def test_another_data_set_for_the_same_model(made, tmp_path):
    """With the model and the options of one run the records of another."""
    folder, _, out = made
    model = out / "spm.model"
    said = run(
        *("pet-fairseq", "prompts", "--test", folder / "test.jsonl", "--spm", model),
        *("--out", tmp_path / "bin"),
    )
    assert "test: 5 records" in said.output
    assert (tmp_path / "bin/spm.model").read_bytes() == model.read_bytes()
    for kind in ("query", "prompt", "response"):
        for end in ("bin", "idx"):
            name = f"test.{kind}.{end}"
            assert (tmp_path / "bin" / name).read_bytes() == (out / name).read_bytes()


def refused(*args):
    line = refusal("prompts", *args)
    assert line.startswith("pet-fairseq prompts: error: ")
    return line


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'{"query": "", "prompt": "\xff"}\n', "not UTF-8 (0xff at byte 25 of the line)"),
        (b'{"query": "%b"}\n' % (b"x" * 300_000), "0.3 MB, more than --max-record-mb 0.1;"),
    ],
)
def test_bad_records(made, tmp_path, bad, message):
    folder, _, out = made
    path = write(tmp_path / "bad.jsonl", records(2, 1))
    path.write_bytes(path.read_bytes() + bad)
    files = ("--test", folder / "test.jsonl", "--valid", path, "--spm", out / "spm.model")
    error = refused(*files, "--out", tmp_path / "bin", "--max-record-mb", "0.1")
    assert f"{path}: line 3: " in error and message in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl"]


def test_another_model_than_that_of_the_folder(made, tmp_path):
    folder, _, out = made
    other = tmp_path / "other.model"
    other.write_bytes((out / "spm.model").read_bytes() + b"\n\0")
    error = refused("--test", folder / "test.jsonl", "--spm", other, "--out", out)
    assert f"--out {out}: is there already, made with another SentencePiece model" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--train: missing; give --train, --valid, --test or --text"),
        (("--train", "NONE"), "--train NONE: no such file"),
        (("--train", "FOLDER"), "is a folder; give a file"),
        (("--test", "TEST", "--text", "TEST", "NONE"), "--text NONE: no such file"),
        (("--test", "TEST", "--spm", "NONE"), "--spm NONE: no such file"),
        (("--test", "TEST"), "--spm: missing; give a model, or --train or --text to train one on"),
        (("--test", "TEST", "--spm", "TEST"), "jsonl: not a SentencePiece model"),
        (("--test", "TEST", "--spm", "MODEL", "--vocab-size", "9"), "--vocab-size 9: of no use"),
        (("--train", "TEST", "--vocab-size", "0"), "--vocab-size 0: give 2 or more"),
        (("--train", "TEST", "--vocab-size", "40"), "--vocab-size 40: SentencePiece says: "),
        (("--train", "TEST", "--lm-tokens", "1"), "--lm-tokens 1: give 2 or more"),
        (("--train", "TEST", "--max-record-mb", "0"), "--max-record-mb 0: give more than 0"),
        (("--train", "TEST", "--max-record-mb", "nan"), "--max-record-mb nan: give more than 0"),
        (("--train", "TEST", "--max-record-mb", "inf"), "--max-record-mb inf: no line is that"),
        (("--train", "TEST", "--max-record-mb", "1e200"), "1e+200: no line is that long"),
        (
            ("--train", "TEST", "--plot", "FOLDER"),
            "give the name of a file in a folder that exists",
        ),
        (("--train", "TEST", "--plot", "NONE/x.png"), "--plot NONE/x.png: give the name of a file"),
        (("--train", "TEST", "--plot", "BIN"), "/bin: is the folder of --out; give the name of a"),
        (("--train", "TEST", "--plot", "DICT"), "/bin/dict.txt: give a name that ends in .png"),
        (("--text", "TEST", "--plot", "x.png"), "--plot x.png: has no records; give --train"),
        (("--train", "NO_RESPONSE"), "line 1: no field 'response'; give query, prompt, response"),
        (("--train", "EMPTY"), "line 1: 'response' is empty"),
        (("--train", "NOTHING"), "no records"),
        (("--text", "NOTHING"), "--vocab-size 8000: SentencePiece says: the text has nothing"),
    ],
)
def test_wrong_options_and_files(made, tmp_path, capsys, options, message):
    """Without a process of their own; --out is a new folder."""
    folder, _, out = made
    files = {"TEST": folder / "test.jsonl", "MODEL": out / "spm.model", "FOLDER": folder}
    files |= {"BIN": tmp_path / "bin", "DICT": tmp_path / "bin/dict.txt"}
    for name, content in (
        ("NO_RESPONSE", '{"query": "", "prompt": ""}'),
        ("EMPTY", '{"query": "", "prompt": "", "response": ""}'),
        ("NOTHING", "\n"),
    ):
        files[name] = tmp_path / name
        files[name].write_text(content)
    given = [str(files.get(option, option)) for option in options]
    assert main(["prompts", *given, "--out", str(tmp_path / "bin")]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("pet-fairseq prompts: error: ") and message in error
    assert not list(tmp_path.glob("bin*"))


def test_a_folder_that_cannot_be_made(made, tmp_path, capsys):
    folder, _, out = made
    (tmp_path / "file").touch()
    given = ["--test", str(folder / "test.jsonl"), "--spm", str(out / "spm.model")]
    assert main(["prompts", *given, "--out", str(tmp_path / "file" / "bin")]) == 1
    assert f"--out {tmp_path / 'file'}: " in capsys.readouterr().err
