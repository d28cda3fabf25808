"""Raw text as data in the teacher's pieces, and which stages what is given needs."""

import io
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from sentencepiece import SentencePieceProcessor
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from pet_fairseq.checkpoints.frozen_models import load_frozen_models
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.compress.preparation import (
    Given,
    check_given,
    corpus_stages,
    data_stages,
    raw_test_stages,
    teacher_stages,
    with_named_test,
)
from pet_fairseq.compress.raw_text import (
    TextPair,
    choose_sets,
    parallel,
    write_pieces,
)
from pet_fairseq.compress.vocabulary import trim_teacher
from pet_fairseq.demo.corpus import train_pieces
from pet_fairseq.errors import UserError
from pet_fairseq.predict.shared_options import Search
from pet_fairseq.results.sacrebleu_sets import named_set, pair_of
from pet_fairseq.runner.stage import without_options
from tests.cli.processes import preprocess, write_text
from tests.translation import load_task, save_model

SETS = ("train", "valid", "test")


@pytest.fixture(scope="session")
def made(once):
    """Binary data of a toy language of whole words, and its raw text."""

    def fill(folder):
        write_text(folder / "raw", {"train": 300, "valid": 20, "test": 20})
        preprocess(folder / "raw", folder / "bin")

    return once("toy_text", fill)


@pytest.fixture
def teacher(made, tmp_path):
    task = load_task(made / "bin", max_source_positions=9, max_target_positions=9)
    save_model(tmp_path / "teacher.pt", task)
    return tmp_path / "teacher.pt"


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_sets_are_held_out_by_their_words(tmp_path):
    draw = random.Random(1)
    texts = [f"{draw.choice('ab')} {draw.randrange(10_000)}" for _ in range(5000)]
    choose = choose_sets(write(tmp_path / "a", texts), "train", ["valid", "test"])
    sizes = Counter(map(choose, texts))
    assert 350 < sizes["valid"] < 650 and 350 < sizes["test"] < 650
    assert all(choose(text) == choose(f"{text.upper()}!") for text in texts)
    large = choose_sets(write(tmp_path / "b", range(40_000)), "train", ["valid"])
    assert 850 < Counter(map(large, map(str, range(40_000))))["valid"] < 1150
    alone = choose_sets(tmp_path / "a", "train", [])
    assert {alone(text) for text in texts} == {"train"}
    assert {choose_sets(tmp_path / "a", "test", [])(text) for text in texts} == {"test"}


def test_what_is_given_is_what_is_written(made, teacher, tmp_path):
    raw = made / "raw"
    pairs = {
        split: [TextPair(raw / f"{split}.de", raw / f"{split}.en")]
        for split in ("train", "valid", "test")
    }
    write_pieces(teacher, pairs, tmp_path / "out")
    for split in pairs:
        short = [
            both
            for both in zip(read(raw / f"{split}.de"), read(raw / f"{split}.en"))
            if split == "test" or all(len(side.split()) <= 8 for side in both)
        ]
        found = [read(tmp_path / f"out/{split}.{language}") for language in ("de", "en")]
        assert [tuple(both) for both in zip(*found)] == short
    assert read(tmp_path / "out/raw.reference") == read(raw / "test.en")
    for language in ("de", "en"):
        name = f"dict.{language}.txt"
        assert read(tmp_path / "out" / name) == read(made / "bin" / name)


def test_sets_that_are_missing_come_from_the_training_text(made, teacher, tmp_path):
    raw = made / "raw"
    write_pieces(
        teacher, {"train": [TextPair(raw / "train.de", raw / "train.en")]}, tmp_path / "out"
    )
    together = [
        both
        for split in ("train", "valid", "test")
        for both in zip(*(read(tmp_path / f"out/{split}.{language}") for language in ("de", "en")))
    ]
    wanted = Counter(zip(read(raw / "train.de"), read(raw / "train.en")))
    assert not Counter(together) - wanted
    sources = {
        split: set(read(tmp_path / f"out/{split}.de")) for split in ("train", "valid", "test")
    }
    assert all(sources.values())
    assert not sources["train"] & sources["valid"] and not sources["train"] & sources["test"]


def test_pairs_that_training_cannot_use(made, teacher, tmp_path):
    source = ["a1 a2", "", "a1", "a1 " * 9, "a1", "x" * 2000, "a2"]
    target = ["b2 b1", "b1", "", "b1", "b1 " * 9, "b1", "b2"]
    files = [write(tmp_path / "s", source), write(tmp_path / "t", target)]
    write_pieces(teacher, {split: [TextPair(*files)] for split in SETS}, tmp_path / "out")
    assert read(tmp_path / "out/train.de") == ["a1 a2", "a2"]
    assert read(tmp_path / "out/valid.en") == ["b2 b1", "b2"]
    assert len(read(tmp_path / "out/test.de")) == len(read(tmp_path / "out/raw.reference")) == 7
    # a test set that is held out has no lines of 100,000 letters that the user could not take out
    more = [write(tmp_path / side, [f"a{i} a{i}" for i in range(40)]) for side in ("s2", "t2")]
    long = [f"a1 {word}" for i in range(40) for word in ("a" * 100_000, "a2 " * 33_000, f"x{i}")]
    for file in more:
        write(file, read(file) + long)
    write_pieces(teacher, {"train": [TextPair(*more)]}, tmp_path / "held_out")
    lines = [line for split in SETS for line in read(tmp_path / f"held_out/{split}.de")]
    assert len(lines) == 80 and max(map(len, lines)) < 20


def test_sides_of_different_lengths(made, teacher, tmp_path):
    files = [write(tmp_path / "s", ["a", "b"]), write(tmp_path / "t", ["a"])]
    with pytest.raises(UserError, match=rf"{files[1]}: ends after 1 lines, but {files[0]} goes on"):
        list(parallel(*files))
    with pytest.raises(UserError, match="ends after 1 lines"):
        write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_pair_that_can_be_used(made, teacher, tmp_path):
    files = [write(tmp_path / "s", ["", " "]), write(tmp_path / "t", ["a", "b"])]
    with pytest.raises(
        UserError, match=rf"--train-pair {files[0]}: has no pair for train: 2 empty"
    ):
        write_pieces(teacher, {split: [TextPair(*files)] for split in SETS}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_given_pairs_beside_translations(made, teacher, tmp_path):
    """The pairs are repeated, and what is held out comes from them alone."""
    raw = made / "raw"
    given = TextPair(raw / "train.de", raw / "train.en", 3)
    translated = TextPair(
        write(tmp_path / "s", ["a1 a2", "a3"]), write(tmp_path / "t", ["b9", "b8"])
    )
    write_pieces(teacher, {"train": [given, translated]}, tmp_path / "both")
    write_pieces(teacher, {"train": [TextPair(given.source, given.target)]}, tmp_path / "alone")
    for language, lines in (("de", ["a1 a2", "a3"]), ("en", ["b9", "b8"])):
        alone = read(tmp_path / f"alone/train.{language}")
        repeated = [line for line in alone for _ in range(3)]
        assert read(tmp_path / f"both/train.{language}") == repeated + lines
        for split in ("valid", "test"):
            name = f"{split}.{language}"
            assert read(tmp_path / "both" / name) == read(tmp_path / "alone" / name)


def test_what_the_references_are(made, teacher, tmp_path):
    text, pair = (made / "raw/test.de",), (made / "raw/train.de", made / "raw/train.en")
    out = tmp_path / "out"
    assert Given(teacher, out, text=text).measures_agreement
    assert not Given(teacher, out, text=text, pairs={"test": pair}).measures_agreement
    assert not Given(teacher, out, text=text, pairs={"train": pair}).measures_agreement
    assert not Given(teacher, out, made / "bin").measures_agreement
    with pytest.raises(UserError, match=r"--text .*gone: no such file"):
        check_given(Given(teacher, out, text=(tmp_path / "gone",)))


# --- fewer words ----------------------------------------------------------------------------------


@pytest.fixture(params=["two dictionaries", "one dictionary"])
def in_pieces(request, tmp_path):
    """A teacher whose words are pieces, its folder, and a text that has some of them only."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(300)]
    texts = [" ".join(draw.choices(words, k=4)) for _ in range(2000)]
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher/spm.model").write_bytes(train_pieces(texts, 200))
    pieces = SentencePieceProcessor(str(tmp_path / "teacher/spm.model"))
    for language in ("de", "en"):
        known = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
        draw.shuffle(known) if request.param == "two dictionaries" else None
        write(tmp_path / f"teacher/dict.{language}.txt", [f"{piece} 1" for piece in known])
    shared = request.param == "one dictionary"
    task = load_task(tmp_path / "teacher", max_source_positions=40, max_target_positions=40)
    save_model(tmp_path / "teacher/checkpoint.pt", task, share_all_embeddings=shared)
    files = [write(tmp_path / side, draw.choices(texts[:30], k=200)) for side in ("s", "t")]
    return tmp_path / "teacher/checkpoint.pt", files, texts


@pytest.mark.parametrize("most", [None, 60])
def test_a_teacher_with_fewer_words(most, in_pieces, tmp_path):
    """It is as the whole one: its words are pieces of the text, its distributions renormalised."""
    teacher, files, texts = in_pieces
    write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "pieces")
    trim_teacher(teacher, tmp_path / "pieces", most, tmp_path / "trimmed")
    trimmed = tmp_path / "trimmed/checkpoint.pt"
    whole_model, whole = load(teacher)
    model, task = load(trimmed)
    assert load_checkpoint(str(trimmed), "x")["cfg"].task.data == str(tmp_path / "trimmed")
    sizes = len(task.source_dictionary), len(task.target_dictionary)
    if most is None:
        assert max(sizes) < 200 and all(
            set(line.split()) <= set(task.source_dictionary.symbols)
            for line in read(tmp_path / "pieces/train.de")
        )
    else:
        assert sizes == (64, 64)
    write_pieces(trimmed, {"train": [TextPair(*files)]}, tmp_path / "text")
    if most is None:
        assert read(tmp_path / "text/train.de") == read(tmp_path / "pieces/train.de")
    source, target = (read(tmp_path / f"text/train.{side}")[0] for side in ("de", "en"))
    rows = torch.tensor([whole.target_dictionary.index(w) for w in task.target_dictionary.symbols])
    expected = logits(whole_model, whole, source, target)[..., rows].log_softmax(-1)
    torch.testing.assert_close(logits(model, task, source, target).log_softmax(-1), expected)
    restricted = SentencePieceProcessor(str(tmp_path / "trimmed/spm.model"))
    known = {*task.source_dictionary.symbols, *task.target_dictionary.symbols}
    assert all(set(restricted.encode(text, out_type=str)) <= known for text in texts)


@pytest.mark.parametrize("most", [None, 45])
def test_a_teacher_of_codes_with_fewer_words(most, tmp_path):
    """Every piece of its text is a word of it, and the pieces join to the text."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 7))) for _ in range(80)]
    texts = [" ".join(draw.choices(words, k=4)) for _ in range(400)]
    (tmp_path / "teacher").mkdir()
    codes = tmp_path / "teacher/bpe.codes"
    with codes.open("w") as out:
        learn_bpe(io.StringIO("".join(f"{text}\n" for text in texts)), out, 60)
    with codes.open() as file:
        bpe = BPE(file)
    known = sorted({piece for text in texts for piece in bpe.process_line(text).split()})
    for language in ("de", "en"):
        write(tmp_path / f"teacher/dict.{language}.txt", [f"{piece} 1" for piece in known])
    teacher = tmp_path / "teacher/checkpoint.pt"
    save_model(teacher, load_task(tmp_path / "teacher"), share_all_embeddings=True)
    files = [write(tmp_path / side, texts[:200]) for side in ("s", "t")]
    sets = {split: [TextPair(*files)] for split in SETS}
    write_pieces(teacher, sets, tmp_path / "pieces")
    trim_teacher(teacher, tmp_path / "pieces", most, tmp_path / "trimmed")
    write_pieces(tmp_path / "trimmed/checkpoint.pt", sets, tmp_path / "text")
    kept = {line.split()[0] for line in read(tmp_path / "trimmed/dict.en.txt")}
    segmented = read(tmp_path / "text/train.en")
    assert {piece for line in segmented for piece in line.split()} <= kept
    assert [f"{line} ".replace("@@ ", "").strip() for line in segmented] == texts[:200]
    assert most is None or 30 < len(kept) <= most < len(known)
    if most is None:
        assert segmented == read(tmp_path / "pieces/train.en")


def test_languages_that_only_the_data_name(made, teacher, tmp_path):
    """As of a teacher by fairseq's own command for IWSLT'14, which gives none."""
    state = torch.load(teacher)
    state["cfg"]["task"] |= {"source_lang": None, "target_lang": None}
    torch.save(state, teacher)
    pair = TextPair(made / "raw/train.de", made / "raw/train.en")
    write_pieces(teacher, {"train": [pair]}, tmp_path / "pieces")
    trim_teacher(teacher, tmp_path / "pieces", None, tmp_path / "trimmed")
    given = Given(teacher, tmp_path / "out", pairs={"train": (pair.source, pair.target)})
    for checkpoint in (teacher, tmp_path / "trimmed/checkpoint.pt"):
        (_, binary), _ = data_stages(given, checkpoint)
        assert binary.words()[:5] == ["fairseq-preprocess", "-s", "de", "-t", "en"]
        write_pieces(checkpoint, {"train": [pair]}, tmp_path / f"text_{checkpoint.stem}")


def load(path):
    """A model and a task with the dictionaries beside it."""
    task = load_task(path.parent)
    (model,) = load_frozen_models(str(path), "TEACHER", task).models
    return model, task


def logits(model, task, source, target):
    """Of a pair of lines in pieces."""
    tokens = task.source_dictionary.encode_line(source, add_if_not_exist=False).long()[None]
    words = task.target_dictionary.encode_line(target, add_if_not_exist=False).long()[None]
    assert not tokens.eq(task.source_dictionary.unk()).any()
    previous = words.roll(1, dims=1)
    return model(tokens, torch.tensor([tokens.size(1)]), previous)[0]


def test_numbers_of_words_that_cannot_be(in_pieces, tmp_path):
    teacher, files, _ = in_pieces
    write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "pieces")
    with pytest.raises(UserError, match=r"--vocabulary 5: the text has \d+ different pieces"):
        trim_teacher(teacher, tmp_path / "pieces", 5, tmp_path / "trimmed")
    teacher.with_name("spm.model").rename(teacher.with_name("codes"))
    with pytest.raises(UserError):  # no codes of BPE
        trim_teacher(teacher, tmp_path / "pieces", 60, tmp_path / "trimmed")
    assert not (tmp_path / "trimmed").exists()


def test_a_subword_model_of_another_text(in_pieces, tmp_path):
    """It is told before anything is written or translated; a few unknown letters are none."""
    teacher, files, texts = in_pieces
    strange = write(tmp_path / "strange", [f"{line} ÄÖ" for line in read(files[0])])
    write_pieces(teacher, {"train": [TextPair(strange, files[1])]}, tmp_path / "pieces")
    others = [text.translate(str.maketrans("abcdefgh", "stuvwxyz")) for text in texts]
    teacher.with_name("spm.model").write_bytes(train_pieces(others, 200))
    message = r"spm.model: \d+% of its pieces are no words of TEACHER; put the subword model of"
    with pytest.raises(UserError, match=message):
        write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match=message):
        corpus_stages(Given(teacher, tmp_path / "out", text=(files[0],)), teacher)


@pytest.mark.parametrize("vocabulary", ["all", "-5", "1.5", ""])
def test_vocabularies_that_are_none(vocabulary, made, teacher, tmp_path):
    pair = (made / "raw/train.de", made / "raw/train.en")
    with pytest.raises(UserError, match=f"--vocabulary {vocabulary}: give keep, trim, or a number"):
        check_given(Given(teacher, tmp_path, pairs={"train": pair}, vocabulary=vocabulary))
    with pytest.raises(UserError, match="--vocabulary trim: is for raw text"):
        check_given(Given(teacher, tmp_path, made / "bin", vocabulary="trim"))


# --- which stages ---------------------------------------------------------------------------------


def test_one_thing_to_train_on(made, teacher, tmp_path):
    pair = (made / "raw/train.de", made / "raw/train.en")
    with pytest.raises(UserError, match=r"^--data and --train-pair: both say what to"):
        check_given(Given(teacher, tmp_path, made / "bin", pairs={"train": pair}))
    check_given(Given(teacher, tmp_path, made / "bin", pairs={"test": pair}))
    for pairs in ({}, {"test": pair}):
        with pytest.raises(UserError, match="--data, --train-pair or --text: says what"):
            check_given(Given(teacher, tmp_path, pairs=pairs))
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
        ("x.de", "ein Hund\n".encode("utf-16"), "UTF-16, or no text; give UTF-8"),
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


def test_a_checkpoint_with_its_data_needs_nothing(made, teacher, tmp_path):
    given = Given(teacher, tmp_path / "out", made / "bin")
    assert teacher_stages(given) == ((), teacher)
    assert data_stages(given, teacher) == ((), (made / "bin",))
    given = Given(teacher, tmp_path / "out", made / "bin", more_data=(made / "more",))
    assert data_stages(given, teacher) == ((), (made / "bin", made / "more"))


def test_a_test_set_of_raw_text_beside_data(made, teacher, tmp_path):
    """It is in the words of the data, line by line, and as it was given."""
    out, raw = tmp_path / "out", tmp_path / "raw"
    raw.mkdir()
    pair = (
        write(raw / "x.de", ["a1 a2", "", " ".join(["a1"] * 30)]),
        write(raw / "x.en", ["b1", "b2", "b3"]),
    )
    given = Given(teacher, out, made / "bin", pairs={"test": pair})
    (pieces, data), folder = raw_test_stages(given, teacher)
    arguments = {**pieces.command.arguments, "folder": pieces.product}
    out.mkdir()
    pieces.command.function(**arguments)
    assert read(pieces.product / "test.de") == ["a1 a2", "", " ".join(["a1"] * 30)]
    assert read(pieces.product / "raw.source") == read(pair[0])
    assert read(pieces.product / "raw.reference") == read(pair[1])
    for side in ("de", "en"):
        words = (made / f"bin/dict.{side}.txt").read_text()
        assert (pieces.product / f"dict.{side}.txt").read_text() == words
    assert folder == out / "test_bin" and str(pieces.product / "test") in data.command
    assert given.raw_test == pieces.product and not given.measures_agreement


def test_a_test_set_that_sacrebleu_knows(made, teacher, tmp_path, monkeypatch):
    """It is that of the teacher's languages, unless it names its own."""
    from sacrebleu.dataset import DATASETS

    known = DATASETS["wmt19"]
    monkeypatch.setattr(known, "_outdir", str(tmp_path))
    for field in known.fieldnames("de-en"):
        write(tmp_path / f"wmt19.de-en.{field}", ["a1"])
        write(tmp_path / f"wmt19.en-de.{field}", ["b1"])
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
    """As translate-corpus is told; in how many processes is no part of the record."""
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
        assert "--jobs" not in without_options(words_of_stage, stage.free)
        assert without_options(words_of_stage, stage.free) == words_of_stage[:-2]
    with pytest.raises(UserError, match=r"^--sampling-topk: is for --sampling"):
        check_given(replace(given, search=Search(sampling_topk=3)))
    with pytest.raises(UserError, match=r"^--beam: is for --text; give that too"):
        check_given(replace(given, text=(), search=Search(beam=2)))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"\n \n", "no line has words; give a text"),
        ("Hund und Katze\n".encode("utf-16"), "UTF-16, or no text; give UTF-8"),
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


def test_folders(made, teacher, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"TEACHER .*empty: has neither a checkpoint nor config"):
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
