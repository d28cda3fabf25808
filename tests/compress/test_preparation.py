"""What is given to `compress`, and which stages it needs."""

import json
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pet_fairseq.compress import plan, preparation
from pet_fairseq.compress.commands import COMMANDS
from pet_fairseq.compress.data import data_stages, raw_test_stages
from pet_fairseq.compress.given import Given, check_given, read_given, with_named_test
from pet_fairseq.compress.preparation import check_sides, corpus_stages, finish, teacher_stages
from pet_fairseq.compress.raw_text import REFERENCE, TextPair, write_pieces
from pet_fairseq.compress.student import Size
from pet_fairseq.compress.teacher_text import open_teacher
from pet_fairseq.errors import UserError
from pet_fairseq.predict.shared_options import Search
from pet_fairseq.results.sacrebleu_sets import named_set, pair_of
from pet_fairseq.runner.record import differences, make_record
from pet_fairseq.runner.stage import PRODUCT, Stage, without_options
from tests.compress.lines import read_lines, write_lines
from tests.export.translators import make, sentence_pieces
from tests.translation import make_task, save_model

SETS = ("train", "valid", "test")
COMPRESS = COMMANDS[0]


def test_given_pairs_beside_translations(made, teacher, tmp_path):
    """The pairs are repeated, and what is held out comes from them alone."""
    raw = made / "raw"
    given = TextPair(raw / "train.de", raw / "train.en", 3)
    translated = TextPair(
        write_lines(tmp_path / "s", ["a3", "a7"]), write_lines(tmp_path / "t", ["b9", "b8"])
    )
    write_pieces(teacher, {"train": [given, translated]}, tmp_path / "both")
    write_pieces(teacher, {"train": [TextPair(given.source, given.target)]}, tmp_path / "alone")
    for language, lines in (("de", ["a3", "a7"]), ("en", ["b9", "b8"])):
        alone = read_lines(tmp_path / f"alone/train.{language}")
        repeated = [line for line in alone for _ in range(3)]
        assert read_lines(tmp_path / f"both/train.{language}") == repeated + lines
        for split in ("valid", "test"):
            name = f"{split}.{language}"
            assert read_lines(tmp_path / "both" / name) == read_lines(tmp_path / "alone" / name)


def test_what_is_held_out_is_nowhere_in_the_training_text(made, teacher, tmp_path):
    """Text that is translated may be that of the pairs."""
    given = TextPair(made / "raw/train.de", made / "raw/train.en")
    words = ["b1 b2"] * len(read_lines(given.source))
    translated = TextPair(given.source, write_lines(tmp_path / "translated", words))
    write_pieces(teacher, {"train": [given, translated]}, tmp_path / "out")
    write_pieces(teacher, {"train": [given]}, tmp_path / "alone")
    sources = {split: read_lines(tmp_path / f"out/{split}.de") for split in SETS}
    assert sources["train"] == 2 * read_lines(tmp_path / "alone/train.de")
    held_out = {*sources["valid"], *sources["test"]}
    assert held_out and held_out.isdisjoint(sources["train"])
    about = json.loads((tmp_path / "out/about.json").read_text())
    assert about["train"]["held out"] >= len(held_out)


def test_what_the_references_are(made, teacher, tmp_path):
    text, pair = (made / "raw/test.de",), (made / "raw/train.de", made / "raw/train.en")
    out = tmp_path / "out"
    assert Given(teacher, out, text=text).measures_agreement
    assert not Given(teacher, out, text=text, pairs={"test": pair}).measures_agreement
    assert not Given(teacher, out, text=text, pairs={"train": pair}).measures_agreement
    assert not Given(teacher, out, made / "bin").measures_agreement
    with pytest.raises(UserError, match=r"--text .*gone: no such file"):
        check_given(Given(teacher, out, text=(tmp_path / "gone",)))


@pytest.mark.parametrize("vocabulary", ["all", "-5", "1.5", ""])
def test_vocabularies_that_are_none(vocabulary, made, teacher, tmp_path):
    pair = (made / "raw/train.de", made / "raw/train.en")
    with pytest.raises(UserError, match=f"--vocabulary {vocabulary}: give keep, trim, or a number"):
        check_given(Given(teacher, tmp_path, pairs={"train": pair}, vocabulary=vocabulary))
    with pytest.raises(UserError, match="--vocabulary trim: is for raw text"):
        check_given(Given(teacher, tmp_path, made / "bin", vocabulary="trim"))


def test_one_thing_to_train_on(made, teacher, tmp_path):
    pair = (made / "raw/train.de", made / "raw/train.en")
    with pytest.raises(UserError, match=r"^--data and --train-pair: both say what to"):
        check_given(Given(teacher, tmp_path, made / "bin", pairs={"train": pair}))
    check_given(Given(teacher, tmp_path, made / "bin", pairs={"test": pair}))
    for pairs in ({}, {"test": pair}):
        with pytest.raises(UserError, match="--data, --train-pair or --text: says what"):
            check_given(Given(teacher, tmp_path, pairs=pairs))
    check_given(Given(teacher, tmp_path, pairs={"train": pair}, text=pair[:1], repeat=2))
    for less in (Given(teacher, tmp_path, made / "bin"), Given(teacher, tmp_path, text=pair[:1])):
        with pytest.raises(UserError, match=r"^--repeat-pairs 2: says how often the pairs of"):
            check_given(replace(less, repeat=2))
    gone = (tmp_path / "gone.de", pair[1])
    with pytest.raises(UserError, match=rf"--train-pair {gone[0]}: no such file"):
        check_given(Given(teacher, tmp_path, pairs={"train": gone}))


@pytest.mark.parametrize(
    "name, content, message",
    [
        (
            "x.de",
            "ein M\xe4dchen\n".encode("latin-1") * 20,
            "not UTF-8: of the first 20 lines that",
        ),
        ("x.de", "ein Hund\n".encode("utf-16"), "UTF-16; convert it to UTF-8"),
        ("x.de.gz", b"", "is compressed; unpack it"),
    ],
)
def test_pairs_of_another_encoding(name, content, message, made, teacher, tmp_path):
    (tmp_path / name).write_bytes(content)
    pair = (tmp_path / name, made / "raw/train.en")
    for split in SETS:
        pairs = {"train": (made / "raw/train.de", pair[1]), split: pair}
        with pytest.raises(UserError, match=f"--{split}-pair {tmp_path}/{name}: {message}"):
            check_given(Given(teacher, tmp_path, pairs=pairs))


def sides_of(teacher, source, target, split="train") -> None:
    given = Given(teacher, teacher.parent, pairs={split: (source, target)})
    check_sides(given, open_teacher(teacher).segmenter(), ("de", "en"))


@pytest.mark.parametrize("split", SETS)
def test_exchanged_sides_are_seen_by_their_words(split, made, teacher, tmp_path):
    sides = [tmp_path / "s", tmp_path / "t"]
    for side, language in zip(sides, ("de", "en")):
        shutil.copyfile(made / f"raw/train.{language}", side)
    sides_of(teacher, *sides, split)
    message = f"--{split}-pair {sides[1]} {sides[0]}: source and target are exchanged, as the teac"
    with pytest.raises(UserError, match=message):
        sides_of(teacher, *sides[::-1], split)


@pytest.mark.parametrize(
    "source, target",
    [
        ([], []),
        ([""], [""]),
        (["x y z"] * 9, ["v w"] * 9),  # of another domain
        (["b1 b2"] * 9, ["b3 b4"] * 9),  # of one language: exchanging the sides does not help
        (["b1 a2 a3 a4"] * 9, ["a1 b2 b3 b4"] * 9),
    ],
)
def test_text_that_is_not_exchanged(source, target, teacher, tmp_path):
    sides_of(teacher, write_lines(tmp_path / "s", source), write_lines(tmp_path / "t", target))


def test_exchanged_sides_are_seen_by_their_names(made, tmp_path):
    """With one dictionary their words say nothing."""
    words = [f"{side}{i}" for side in "ab" for i in range(40)]
    save_model(tmp_path / "joined.pt", make_task(tmp_path / "bin", words))
    de, en = made / "raw/train.de", made / "raw/train.en"
    sides_of(tmp_path / "joined.pt", de, en)
    with pytest.raises(UserError, match="source and target are exchanged"):
        sides_of(tmp_path / "joined.pt", en, de)
    for name, file in (("x", de), ("y", en)):
        shutil.copyfile(file, tmp_path / name)
    sides_of(tmp_path / "joined.pt", tmp_path / "y", tmp_path / "x")


def test_an_untrained_student_is_tried_in_its_forms_once(made, teacher, tmp_path, monkeypatch):
    """Before the test set is made of raw text, and not again when it is there."""
    tried = []
    monkeypatch.setattr(plan, "check_forms", lambda forms, *_: tried.append(forms))

    def finish(args, given, todo):
        if todo[1] == given.layout.test_data:
            assert tried == [("onnx",)]
            shutil.copytree(made / "bin", given.layout.test_data)
            given.layout.test_text.mkdir()
            shutil.copyfile(made / "raw/test.en", given.layout.test_text / REFERENCE)
        return todo[1]

    monkeypatch.setattr(preparation, "finish", finish)
    pair = (str(made / "raw/test.de"), str(made / "raw/test.en"))
    words = [str(teacher), "--data", str(made / "bin"), "--test-pair", *pair, "--to", "onnx"]
    args = COMPRESS.parse([*words, "--out", str(tmp_path / "out"), "--device", "cpu"])
    args.size = Size(rate=50)
    request = preparation.prepare(args, read_given(args, args.out))
    plan.make_plan(request)
    assert tried == [("onnx",)]
    plan.make_plan(replace(request, forms_tried=False))  # as if all had been there
    assert tried == [("onnx",)] * 2


@pytest.mark.parametrize("vocabulary, tried", [("trim", [("onnx",)]), ("30", [])])
def test_forms_of_fewer_words_are_tried_before_text_is_translated(
    vocabulary, tried, made, teacher, tmp_path, monkeypatch
):
    """Not those of a number of pieces; and megabytes that all pieces exceed are not refused yet."""
    said = []
    monkeypatch.setattr(plan, "check_forms", lambda forms, *_: said.append(forms))
    begun = []

    def finish(args, given, todo):
        begun.extend(stage.name for stage in todo[0])
        return None if begun else todo[1]

    monkeypatch.setattr(preparation, "finish", finish)
    words = [str(teacher), "--text", str(made / "raw/train.de"), "--vocabulary", vocabulary]
    options = ["--to", "onnx", "--device", "cpu", "--out", str(tmp_path / "out")]
    args = COMPRESS.parse([*words, *options])
    args.size = Size(megabytes=0.001)
    assert preparation.prepare(args, read_given(args, args.out)) is None
    assert "translate-text" in begun and said == tried
    args.vocabulary = "keep"
    begun.clear()
    with pytest.raises(UserError, match=r"--megabytes 0\.001: the nearest student of this method"):
        preparation.prepare(args, read_given(args, args.out))


def test_a_checkpoint_with_its_data_needs_nothing(made, teacher, tmp_path):
    given = Given(teacher, tmp_path / "out", made / "bin")
    assert teacher_stages(given) == ((), teacher)
    assert data_stages(given, teacher) == ((), (made / "bin",))
    given = Given(teacher, tmp_path / "out", made / "bin", more_data=(made / "more",))
    assert data_stages(given, teacher) == ((), (made / "bin", made / "more"))


def test_data_that_moved_behind_its_links(tmp_path):
    """The record of what was made is as before; removed, it is made again with new links."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for name in ("train.de-en.de.idx", "dict.de.txt"):
        (data / name).write_text(name)
    out.mkdir()
    options = {"dry_run": False, "jobs": 1, "again": False, "adopt": False, "device": "cpu"}

    def prepare(data):
        command = ("sh", "-c", 'mkdir "$1"; ln -s "$0"/* "$1"', str(data), PRODUCT)
        stage = Stage("bin", ("data",), command, out / "bin", (data,))
        given = Given(tmp_path / "teacher.pt", out, data)
        return finish(Namespace(**options), given, ((stage,), out / "bin"))

    assert prepare(data) == out / "bin"
    data.rename(tmp_path / "moved")
    message = f"{out}/bin: has links to {data}, which was moved or removed; put it back, or remove"
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "moved")
    shutil.rmtree(out / "bin")
    assert prepare(tmp_path / "moved") == out / "bin"
    assert (out / "bin/dict.de.txt").read_text() == "dict.de.txt"


def test_a_test_set_of_raw_text_beside_data(made, teacher, tmp_path):
    """It is in the words of the data, line by line, and as it was given."""
    out, raw = tmp_path / "out", tmp_path / "raw"
    raw.mkdir()
    pair = (
        write_lines(raw / "x.de", ["a1 a2", "", " ".join(["a1"] * 30)]),
        write_lines(raw / "x.en", ["b1", "b2", "b3"]),
    )
    given = Given(teacher, out, made / "bin", pairs={"test": pair})
    (pieces, data), folder = raw_test_stages(given, teacher)
    arguments = {**pieces.command.arguments, "folder": pieces.product}
    out.mkdir()
    pieces.command.function(**arguments)
    assert read_lines(pieces.product / "test.de") == ["a1 a2", "", " ".join(["a1"] * 30)]
    assert read_lines(pieces.product / "raw.source") == read_lines(pair[0])
    assert read_lines(pieces.product / "raw.reference") == read_lines(pair[1])
    for side in ("de", "en"):
        words = (made / f"bin/dict.{side}.txt").read_text()
        assert (pieces.product / f"dict.{side}.txt").read_text() == words
    assert folder == out / "test_bin" and str(pieces.product / "test") in data.command
    assert given.raw_test == pieces.product and not given.measures_agreement


def test_another_subword_model_is_another_input(tmp_path):
    """A user who mends a wrong one and runs the command again gets text in the new pieces."""
    model = make(tmp_path / "data", "transformer", sentence_pieces)
    file = Path(model.data) / "spm.model"
    pair = (write_lines(tmp_path / "x.de", ["cat"]), write_lines(tmp_path / "x.en", ["mat"]))
    teacher = Path(model.checkpoint)
    raw = Given(teacher, tmp_path / "out", pairs=dict.fromkeys(("train", "valid", "test"), pair))
    beside = Given(teacher, tmp_path / "out", Path(model.data), pairs={"test": pair})
    for (pieces, _), _ in (data_stages(raw, teacher), raw_test_stages(beside, teacher)):
        before = make_record(pieces, {}, True)
        file.write_bytes(file.read_bytes() + b"\n")
        assert differences(before, make_record(pieces, {}, True)) == [f"{file} has changed"]


def test_a_test_set_that_sacrebleu_knows(made, teacher, tmp_path, monkeypatch):
    """It is that of the teacher's languages, unless it names its own."""
    from sacrebleu.dataset import DATASETS

    known = DATASETS["wmt19"]
    monkeypatch.setattr(known, "_outdir", str(tmp_path))
    for field in known.fieldnames("de-en"):
        write_lines(tmp_path / f"wmt19.de-en.{field}", ["a1"])
        write_lines(tmp_path / f"wmt19.en-de.{field}", ["b1"])
    given = Given(teacher, tmp_path / "out", made / "bin")
    for word, pair in (("sacrebleu:wmt19", "de-en"), ("sacrebleu:wmt19:en-de", "en-de")):
        found = with_named_test(given, named_set(word, "--test"), teacher).pairs["test"]
        assert found == tuple(tmp_path / f"wmt19.{pair}.{side}" for side in ("src", "ref"))
    with pytest.raises(UserError, match="--test sacrebleu:multi30k/2016: has no de-en, only en-"):
        with_named_test(given, named_set("sacrebleu:multi30k/2016", "--test"), teacher)


def test_languages_as_test_sets_name_them():
    assert (
        pair_of(("de", "en")) == pair_of(("de_DE", "en_XX")) == pair_of(("de-AT", "en")) == "de-en"
    )


def test_text_beside_data(made, teacher, tmp_path):
    """It is translated with the data's words; the mixture depends on both and on the number."""
    text, out = made / "raw/train.de", tmp_path / "out"
    given = Given(teacher, out, made / "bin", text=(text,), repeat=3, more_data=(made / "more",))
    check_given(given)
    stages, summary = corpus_stages(given, teacher)
    assert stages[-1].option("--data") == str(made / "bin")
    assert stages[-1].product == summary == out / "corpus/summary.json"
    (mixing,), folders = data_stages(given, teacher)
    assert folders == (out / "bin/0", out / "bin/1")
    assert mixing.command.arguments["repeat"] == 3
    assert {made / "bin", made / "more", summary} < set(mixing.inputs)
    assert not given.measures_agreement


def test_how_text_is_translated(made, teacher, tmp_path):
    """As translate-corpus is told; where and in how many processes is no part of the record."""
    drawn = Search(nbest=3, sampling=True, sampling_topp=0.9, temperature=0.7)
    text = (made / "raw/train.de",)
    given = Given(teacher, tmp_path / "out", made / "bin", text=text)
    for search, jobs, words in (
        (Search(), 1, []),
        (Search(), 4, []),
        (Search(beam=2, lenpen=0.5), 1, ["--beam", "2", "--lenpen", "0.5"]),
        (drawn, 2, "--nbest 3 --sampling --sampling-topp 0.9 --temperature 0.7".split()),
    ):
        asked = replace(given, search=search, jobs=jobs)
        check_given(asked)
        stage = corpus_stages(asked, teacher)[0][-1]
        words_of_stage = stage.words()
        start = words_of_stage.index("--device") + 2
        assert words_of_stage[start:] == [*words, "--jobs", str(jobs)]
        recorded = without_options(words_of_stage, stage.free)
        assert recorded == [*words_of_stage[: start - 2], *words]
    with pytest.raises(UserError, match=r"^--sampling-topk: is for --sampling"):
        check_given(replace(given, search=Search(sampling_topk=3)))
    with pytest.raises(UserError, match=r"^--beam: is for --text; give that too"):
        check_given(replace(given, text=(), search=Search(beam=2)))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"\n \n", "no line has words; give a text"),
        ("Hund und Katze\n".encode("utf-16"), "UTF-16; convert it to UTF-8"),
        ("K\xe4se f\xfcr alle\n".encode("latin-1") * 30, "not UTF-8: of the first 30 lines"),
    ],
)
def test_texts_that_cannot_be_translated(content, message, made, teacher, tmp_path):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(UserError, match=f"^--text {tmp_path}/text: {message}"):
        check_given(Given(teacher, tmp_path / "out", made / "bin", text=(tmp_path / "text",)))


def test_languages_of_a_bilingual_teacher(made, teacher, tmp_path):
    given = Given(teacher, tmp_path / "out", made / "bin", ("de", "en"))
    assert teacher_stages(given) == ((), teacher)
    with pytest.raises(UserError, match="translates from de to en; leave the options out"):
        teacher_stages(Given(teacher, tmp_path / "out", made / "bin", ("en", "de")))


def test_a_multilingual_teacher_needs_a_pair(made, teacher, tmp_path):
    state = torch.load(teacher)
    multilingual = {"_name": "translation_multi_simple_epoch", "langs": "de,en,fi"}
    state["cfg"]["task"] = Namespace(**{**state["cfg"]["task"], **multilingual})
    path = tmp_path / "many.pt"
    torch.save(state, path)
    given = Given(path, tmp_path / "out", made / "bin")
    with pytest.raises(UserError, match="of de, en, fi; give --source-lang and --target-lang"):
        teacher_stages(given)
    (stage,), _ = teacher_stages(replace(given, languages=("de", "fi")))
    assert stage.name == "bilingual"


def test_folders(made, teacher, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"TEACHER .*empty: has neither a checkpoint nor config"):
        teacher_stages(Given(tmp_path / "empty", tmp_path / "out", made / "bin"))
    (tmp_path / "empty/checkpoint_best.pt").touch()
    with pytest.raises(UserError, match=r"trained checkpoints; give \S+/checkpoint_best.pt"):
        teacher_stages(Given(tmp_path / "empty", tmp_path / "out", made / "bin"))
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/config.json").write_text("{}")
    (stage,), checkpoint = teacher_stages(Given(tmp_path / "hf", tmp_path / "out", made / "bin"))
    assert (stage.name, stage.product) == ("import", tmp_path / "out/imported")
    assert checkpoint == tmp_path / "out/imported/checkpoint.pt"
    given = Given(tmp_path / "hf", tmp_path / "out", made / "bin", ("de", "en"))
    (of_pair,), _ = teacher_stages(given)
    assert of_pair.command.arguments == {
        **stage.command.arguments,
        **{"source_lang": "de", "target_lang": "en"},
    }
    teacher.rename(teacher.with_name("checkpoint.pt"))
    folder = Given(teacher.parent, tmp_path / "out", made / "bin")
    assert teacher_stages(folder) == ((), teacher.with_name("checkpoint.pt"))
