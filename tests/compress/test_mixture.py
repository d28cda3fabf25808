"""Binary data with the translations of a text in its training set."""

import resource
from collections import Counter
from itertools import count

import pytest

from pet_fairseq.compress.mixture import mixture_folders, write_mixture
from pet_fairseq.errors import UserError
from pet_fairseq.predict.corpus.shards import side_path
from tests.cli.processes import preprocess, write_text
from tests.compress.lines import write_shards
from tests.translation import load_task, save_model

SIZES = {"train": 30, "valid": 5, "test": 4}


@pytest.fixture(scope="session")
def made(once):
    """Binary data of a toy language, and its raw text; `more` has the same words in other pairs."""

    def fill(folder):
        write_text(folder / "raw", SIZES)
        preprocess(folder / "raw", folder / "bin")
        write_text(folder / "more_raw", SIZES, seed=1)
        words = [f"--{side}dict={folder}/bin/dict.{lang}.txt" for side, lang in SIDES]
        preprocess(folder / "more_raw", folder / "more", *words)

    return once("mixture", fill)


SIDES = (("src", "de"), ("tgt", "en"))


@pytest.fixture
def teacher(made, tmp_path):
    save_model(tmp_path / "teacher.pt", load_task(made / "bin"))
    return tmp_path / "teacher.pt"


def read(folder, subset, epoch=1):
    """The pairs of a set as fairseq-train reads them, as text."""
    task = load_task(folder, dataset_impl=None, upsample_primary=1)
    task.load_dataset(subset, epoch=epoch, combine=True)
    dataset = task.dataset(subset)
    words = (task.source_dictionary, task.target_dictionary)
    sides = (dataset.src, dataset.tgt)
    return [
        tuple(w.string(side[i]).strip() for w, side in zip(words, sides))
        for i in range(len(dataset))
    ]


def raw(folder, split):
    return list(zip(*((folder / f"{split}.{lang}").read_text().splitlines() for _, lang in SIDES)))


def test_the_training_set_has_both(made, teacher, tmp_path):
    shards = write_shards(tmp_path / "c", [[("a1 a2", "b2 b1"), ("a3", "b3")], [("a4 a1", "b4")]])
    write_mixture(teacher, [made / "bin"], shards, 3, tmp_path / "out")
    given = read(made / "bin", "train")
    pairs = [("a1 a2", "b2 b1"), ("a3", "b3"), ("a4 a1", "b4")]
    assert read(tmp_path / "out", "train") == given * 3 + pairs
    for split in ("valid", "test"):
        assert read(tmp_path / "out", split) == read(made / "bin", split)
    for _, lang in SIDES:
        name = f"dict.{lang}.txt"
        assert (tmp_path / "out" / name).read_text() == (made / "bin" / name).read_text()


def test_the_files_are_those_of_fairseq_preprocess(made, teacher, tmp_path):
    """With an unknown word, too."""
    pairs = [*raw(made / "more_raw", "train"), ("a1 new a2", "b1 b2 other")]
    shards = write_shards(tmp_path / "c", [pairs])
    write_mixture(teacher, [made / "bin"], shards, 1, tmp_path / "out")
    for split, few in (("train", pairs), ("valid", pairs[:1]), ("test", pairs[:1])):
        for side, (_, lang) in enumerate(SIDES):
            path = tmp_path / f"text/{split}.{lang}"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{pair[side]}\n" for pair in few))
    words = [f"--{side}dict={made}/bin/dict.{lang}.txt" for side, lang in SIDES]
    preprocess(tmp_path / "text", tmp_path / "theirs", *words)
    for _, lang in SIDES:
        for end in ("bin", "idx"):
            ours, theirs = (
                tmp_path / f"{folder}.de-en.{lang}.{end}"
                for folder in ("out/train1", "theirs/train")
            )
            assert ours.read_bytes() == theirs.read_bytes()


def test_folders_take_turns(made, teacher, tmp_path):
    pairs = [(f"a{i}", f"b{i}") for i in range(1, 6)]
    data = [made / "bin", made / "more"]
    write_mixture(teacher, data, write_shards(tmp_path / "c", [pairs]), 2, tmp_path / "out")
    folders = mixture_folders(tmp_path / "out", 2)
    for number, (folder, given) in enumerate(zip(folders, data)):
        assert read(folder, "train") == read(given, "train") * 2 + pairs[number::2]
    together = ":".join(map(str, folders))
    task = load_task(folders[0], dataset_impl=None, upsample_primary=1, train_subset="train")
    task.cfg.data = together
    sizes = []
    for epoch in (1, 2, 3):
        task.load_dataset("train", epoch=epoch, combine=True)
        sizes.append(len(task.dataset("train")))
    assert sizes == [63, 62, 63]
    assert read(folders[0], "valid") == read(made / "bin", "valid")


def test_training_sets_of_several_parts_and_directions(made, teacher, tmp_path):
    """Whatever fairseq takes for the training set of the pair, and nothing else."""
    data = tmp_path / "data"
    data.mkdir()
    for file in (made / "bin").iterdir():
        (data / file.name).write_bytes(file.read_bytes())
        if file.name.startswith("train."):
            further = file.name.replace("train.de-en", "train3.de-en")  # there is no train2
            (data / further).write_bytes(file.read_bytes())
    for file in (made / "more").glob("train.*"):
        backwards = file.name.replace("train.de-en", "train1.en-de")
        (data / backwards).write_bytes(file.read_bytes())
    both = read(made / "bin", "train") + read(made / "more", "train")
    assert read(data, "train") == both
    shards = write_shards(tmp_path / "c", [[("a1", "b1")]])
    write_mixture(teacher, [data], shards, 2, tmp_path / "out")
    assert Counter(read(tmp_path / "out", "train")) == Counter(both * 2 + [("a1", "b1")])
    sets = {file.name.split(".")[0] for file in (tmp_path / "out").glob("train*")}
    assert sets == {"train", *(f"train{i}" for i in range(1, 5))}


def test_a_full_disk_leaves_nothing(made, teacher, tmp_path):
    """Files may not grow beyond some bytes, as on a disk that is full."""
    shards = write_shards(tmp_path / "c", [[("a1 a2 a3", "b1 b2 b3")] * 3_000])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}/out'"):
            write_mixture(teacher, [made / "bin"], shards, 1, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_too_few_pairs(made, teacher, tmp_path):
    data = [made / "bin", made / "more"]
    for number, shards in zip(count(), ([[]], [[("a1", "b1")], []])):
        folder = write_shards(tmp_path / f"c{number}", shards)
        message = rf"--text: {number} pairs came of it, too few to train on; the files in {folder}"
        with pytest.raises(UserError, match=message):
            write_mixture(teacher, data, folder, 1, tmp_path / "out")
    folder = write_shards(tmp_path / "c", [[("a1", "b1")], [("a2", "b2")]])
    side_path(folder, 1, "target").unlink()
    with pytest.raises(UserError, match="shard 00001 is missing"):
        write_mixture(teacher, data, folder, 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()
