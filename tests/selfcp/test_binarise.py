"""From text to fairseq's binary data."""

import io
import json
import random
import shutil
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import sentencepiece
from fairseq.data import Dictionary, data_utils

from pet_fairseq.errors import UserError
from pet_fairseq.selfcp import vocabulary as vocabularies
from pet_fairseq.selfcp.binarise import atomic_folder, make_prompts
from pet_fairseq.selfcp.binary_writer import BinaryWriter, LanguageModelWriter
from pet_fairseq.selfcp.template import Template
from pet_fairseq.selfcp.vocabulary import SentencePieces, train_model

SYLLABLES = "ba ko ri sen tul mo fi gar".split()
FIELDS = ("query", "prompt", "response")


def made_words(count):
    draw = random.Random(1)
    return ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(count)]


WORDS = made_words(60)


def some_text(words, seed):
    return " ".join(random.Random(seed).choices(WORDS, k=words))


@pytest.fixture(scope="module")
def model():
    return train_model([some_text(12, seed) for seed in range(200)], 130)


@pytest.fixture
def vocabulary(model):
    return SentencePieces(model, "--spm x")


def write_records(path, records):
    lines = (json.dumps(dict(zip(FIELDS, record))) + "\n" for record in records)
    path.write_text("".join(lines))
    return path


def read(prefix, dictionary):
    data = data_utils.load_indexed_dataset(str(prefix), dictionary, "mmap")
    return [data[i].tolist() for i in range(len(data))]


def strings(items, dictionary):
    return [[dictionary[token] for token in item] for item in items]


# Pieces


def test_numbers_are_those_of_the_dictionary(vocabulary, model, tmp_path):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary.write(tmp_path)
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    for text in ("the cat", "", "a <prompt> b", "Zebra 5%_~", some_text(50, 1)):
        tokens = vocabulary.encode(text)
        assert tokens.dtype == np.int64
        assert strings([tokens], dictionary) == [processor.encode(text, out_type=str)]
    assert vocabulary.encode("the 한 é\u0001").tolist().count(dictionary.unk()) == 2


def test_dictionary_is_the_model_in_its_order(vocabulary, model, tmp_path):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    assert pieces[:4] == ["<unk>", "<s>", "</s>", "<prompt>"]
    assert set(map(chr, range(33, 127))) <= set(pieces)
    vocabulary.write(tmp_path)
    lines = (tmp_path / "dict.txt").read_text().splitlines()
    assert lines == [f"{piece} 0" for piece in pieces[3:]]


def test_parts_of_a_long_text(vocabulary):
    text = some_text(500, 2) + "  \n" + some_text(40, 3)
    whole = vocabulary.encode(text)
    for part in (16, 64, 10_000):  # longer than a word
        assert np.array_equal(vocabulary.encode(text, part), whole)


def test_special_symbols_of_other_names():
    """By their numbers in the model; what is called <pad> is padding, too."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([some_text(12, seed) for seed in range(100)]),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"unk_piece": "[UNK]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "pad_id": 5},
        user_defined_symbols=["<s>"],
    )
    vocabulary = SentencePieces(model.getvalue(), "--spm x")
    words = vocabulary.dictionary.symbols[4:]
    assert not {"[UNK]", "[CLS]", "[SEP]", "<pad>", "<s>", "</s>", "<unk>"} & set(words)
    assert len(words) == len(vocabulary.ids) - 5
    unk = vocabulary.dictionary.unk()
    assert vocabulary.encode("the 한").tolist()[-1] == unk
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    text = some_text(9, 1)
    pieces = processor.encode(text, out_type=str)
    assert strings([vocabulary.encode(text)], vocabulary.dictionary) == [pieces]


def without_unk(model):
    """The model with its first piece, <unk>, as an ordinary one."""
    start = model.index(b"<unk>") + 5
    assert model[start + 5 : start + 7] == b"\x18\x02"  # field 3, the type: unknown
    return model[: start + 6] + b"\x01" + model[start + 7 :]


def with_piece(model, old, new):
    assert len(old) == len(new) and model.count(b"\n\x03" + old) == 1
    return model.replace(b"\n\x03" + old, b"\n\x03" + new)


def test_models_that_are_none(model):
    for other in (b"", b"hello", model[: len(model) // 2], without_unk(model)):
        with pytest.raises(UserError, match=r"--spm x: not a SentencePiece model with an <unk>"):
            SentencePieces(other, "--spm x")


@pytest.mark.parametrize("space", ["\n\r\t", "a b", "\u3000", "a\u00a0"])
def test_pieces_with_white_space(model, space):
    other = with_piece(model, "▁".encode(), space.encode())
    with pytest.raises(UserError, match=r"--spm x: piece \d+ is or has white space \(") as error:
        SentencePieces(other, "--spm x")
    assert repr(space) in str(error.value)


def test_white_space_becomes_no_piece():
    """Of a model that is trained here, also where SentencePiece takes a character for a letter."""
    spaces = "".join(filter(str.isspace, map(chr, range(0x3001))))
    lines = [f"good day {space} to you a{space}b" for space in spaces] * 20
    words = SentencePieces(train_model(lines, 115), "it").dictionary.symbols
    assert not [word for word in words if word.split() != [word]]


# A model of our own


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return {processor.id_to_piece(i) for i in range(processor.get_piece_size())}


def test_ends_of_long_texts_are_learnt():
    lines = ["the cat " * 5000 + "ö ö ö ö " * 500 for _ in range(5)]
    assert "ö" in pieces_of(train_model(lines, 130))


def test_learnt_from_lines_of_everywhere(monkeypatch):
    """The sample is not the beginning."""
    monkeypatch.setattr(vocabularies, "SAMPLE", 300)
    lines = (f"{letter} and more" for letter in "éöü" for _ in range(2000))
    assert set("éöü") <= pieces_of(train_model(lines, 200))


def test_the_same_text_gives_the_same_model(model):
    assert train_model([some_text(12, seed) for seed in range(200)], 130) == model


def test_fewer_pieces_for_little_text(model):
    assert 98 < len(pieces_of(train_model(["the cat sat"], 8000))) < 120
    assert len(pieces_of(model)) == 130


def test_training_that_fails():
    with pytest.raises(UserError, match=r"--vocab-size 50: .* 50 vs 99\.$"):
        train_model(["the cat sat"], 50)
    with pytest.raises(UserError, match=r"--vocab-size 130: .*nothing to learn from"):
        train_model(["", " "], 130)

    def lines():
        yield "the cat"
        raise UserError("a.jsonl: line 2: not JSON")

    with pytest.raises(UserError, match=r"^a\.jsonl: line 2: not JSON$"):
        train_model(lines(), 130)


# BinaryWriter


@pytest.mark.parametrize("lengths", [(3, 0, 1), (0, 2), (2, 0, 0), (0,), (0, 0, 0), (5,)])
def test_items_as_fairseq_reads_them(vocabulary, tmp_path, lengths):
    items = [list(range(4, 4 + length)) for length in lengths]
    with BinaryWriter(tmp_path / "a", vocabulary) as written:
        for item in items:
            written.add(np.array(item, dtype=np.int64))
    data = data_utils.load_indexed_dataset(str(tmp_path / "a"), vocabulary.dictionary, "mmap")
    assert [data[i].tolist() for i in range(len(data))] == items
    assert data.sizes.tolist() == list(lengths)
    assert (written.items, written.tokens) == (len(items), sum(lengths))
    assert written.longest == max(lengths)


def test_no_items_no_files(vocabulary, tmp_path):
    with BinaryWriter(tmp_path / "a", vocabulary):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("most", [2, 6, 7, 12, 40])
def test_records_for_a_language_model(vocabulary, tmp_path, most):
    lengths = [(q, p, r) for q in (0, 2, 5) for p in (0, 1, 8, 30) for r in (1, 4)]
    expected, cut, left_out = [], 0, 0
    with LanguageModelWriter(tmp_path / "a", vocabulary, most) as items:
        for q, p, r in lengths:
            query, prompt, response = [10] * q, list(range(20, 20 + p)), [60] * r
            items.add_record(*(np.array(x, dtype=np.int64) for x in (query, prompt, response)))
            if q + r + 1 > most:
                left_out += 1
                continue
            cut += q + p + r + 1 > most
            while len(query + prompt + response) + 1 > most:
                prompt = prompt[1:]
            expected.append([*query, *prompt, *response, 2])
    assert (items.cut, items.left_out) == (cut, left_out)
    assert read(tmp_path / "a", vocabulary.dictionary) == expected


def test_texts_for_a_language_model(vocabulary, tmp_path):
    """Long ones in parts."""
    with LanguageModelWriter(tmp_path / "a", vocabulary, 4) as items:
        for length in (1, 3, 4, 9):
            items.add_text(np.arange(10, 10 + length))
    assert read(tmp_path / "a", vocabulary.dictionary) == [
        *([10, 2], [10, 11, 12, 2], [10, 11, 12, 13], [2]),
        *([10, 11, 12, 13], [14, 15, 16, 17], [18, 2]),
    ]


# All of it


@pytest.fixture
def files(tmp_path):
    """Records with empty and long fields, and two texts."""
    draw = random.Random(5)
    sizes = {"train": 30, "valid": 4, "test": 3}
    splits, records = {}, {}
    for split, size in sizes.items():
        records[split] = [
            tuple(some_text(draw.choice(n), draw.random()) for n in ((0, 3), (0, 5, 90), (1, 2)))
            for _ in range(size)
        ]
        splits[split] = write_records(tmp_path / f"{split}.jsonl", records[split])
    texts = []
    for name, size in (("a.txt", 130), ("b.txt", 120)):
        lines = [some_text(draw.randrange(1, 5), draw.random()) for _ in range(size)]
        (tmp_path / name).write_text("\n\n".join(lines) + "\n")
        texts.append(tmp_path / name)
    return splits, records, texts


def test_folder(files, tmp_path):
    splits, records, texts = files
    out = tmp_path / "made" / "bin"
    said = make_prompts(splits, texts, out, vocab_size=130, lm_tokens=40)

    processor = sentencepiece.SentencePieceProcessor(model_file=str(out / "spm.model"))
    dictionary = Dictionary.load(str(out / "dict.txt"))
    assert len(dictionary) == processor.get_piece_size() + 1 == 131
    pieces = {
        split: [[processor.encode(part, out_type=str) for part in record] for record in found]
        for split, found in records.items()
    }
    for split, found in pieces.items():
        for i, name in enumerate(FIELDS):
            items = strings(read(out / f"{split}.{name}", dictionary), dictionary)
            assert items == [record[i] for record in found]
        lengths = [[len(record[i]) for record in found] for i in range(3)]
        described = [f"{n} {sum(x) / len(x):.1f} ({max(x)})" for n, x in zip(FIELDS, lengths)]
        line = f"{split}: {len(found)} records, mean (most) tokens: {', '.join(described)}"
        assert line in said.splitlines()

    lines = [line for text in texts for line in text.read_text().split("\n\n")]
    lines = [processor.encode(line, out_type=str) for line in lines]
    held_out = [lines[99], lines[199]]
    kept = [line for number, line in enumerate(lines, 1) if number not in (100, 200)]
    for split, added in (("train", kept), ("valid", held_out)):
        expected = [q + p[-(39 - len(q + r)) :] + r for q, p, r in pieces[split]]
        assert split == "valid" or any(len(q + p + r) > 39 for q, p, r in pieces[split])
        items = strings(read(out / "lm" / split, dictionary), dictionary)
        assert items == [[*item, "</s>"] for item in expected + added]
        assert f"lm/{split}: {len(items)} texts, {sum(map(len, items)):,} tokens" in said

    met = Counter(p for record in pieces["train"] for part in record for p in part)
    met.update(piece for line in kept for piece in line)
    counted = dict(line.rsplit(" ", 1) for line in (out / "dict.txt").read_text().splitlines())
    assert counted == {piece: str(met[piece]) for piece in counted}
    assert (out / "lm/dict.txt").read_bytes() == (out / "dict.txt").read_bytes()
    assert sorted(path.name for path in out.parent.iterdir()) == ["bin"]


def test_only_what_was_given(files, model, tmp_path):
    """A model from elsewhere is taken as it is; without records or text there are no files."""
    splits, _, texts = files
    (tmp_path / "given.model").write_bytes(model)
    said = make_prompts({"test": splits["test"]}, [], tmp_path / "a", tmp_path / "given.model")
    assert (tmp_path / "a/spm.model").read_bytes() == model
    names = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*.*")}
    parts = {f"test.{name}.{kind}" for name in FIELDS for kind in ("bin", "idx")}
    assert names == parts | {"dict.txt", "lm/dict.txt", "spm.model"}
    assert "lm/train: nothing, not written" in said and "127 of them not met" in said

    said = make_prompts({}, [texts[0]], tmp_path / "b", vocab_size=130)
    assert "lm/train: 129 texts" in said and "lm/valid: 1 texts" in said
    assert not list((tmp_path / "b").glob("*.bin"))


def test_a_cue_before_each_response(files, model, tmp_path):
    (tmp_path / "given.model").write_bytes(model)
    options = {"spm": tmp_path / "given.model", "lm_tokens": 500}
    splits, _, _ = files
    splits = {"train": splits["train"]}
    for name, cue in (("without", ""), ("with", WORDS[3])):
        make_prompts(splits, [], tmp_path / name, template=Template(cue=cue), **options)
    assert not (tmp_path / "without/cue.txt").exists()
    pieces = (tmp_path / "with/cue.txt").read_text().split()
    assert "".join(pieces).replace("\u2581", "") == WORDS[3]
    dictionary = Dictionary.load(str(tmp_path / "with/dict.txt"))
    cue = [dictionary.index(piece) for piece in pieces]
    parts, plain = (
        [read(tmp_path / name / f"train.{field}", dictionary) for field in FIELDS]
        for name in ("with", "without")
    )
    assert parts == plain
    texts = read(tmp_path / "with/lm/train", dictionary)
    assert texts == [q + p + cue + r + [dictionary.eos()] for q, p, r in zip(*parts)]
    with pytest.raises(
        UserError, match=r"--cue '\\n': the SentencePiece model finds nothing in it"
    ):
        make_prompts(splits, [], tmp_path / "wrong", template=Template(cue="\n"), **options)
    assert not (tmp_path / "wrong").exists()


def test_records_can_be_kept_from_the_language_model(files, model, tmp_path):
    splits, _, texts = files
    (tmp_path / "given.model").write_bytes(model)
    out = tmp_path / "a"
    make_prompts(splits, texts, out, tmp_path / "given.model", lm_records=False)
    dictionary = Dictionary.load(str(out / "dict.txt"))
    lines = sum(len(text.read_text().split("\n\n")) for text in texts)
    sizes = [len(read(out / "lm" / split, dictionary)) for split in ("train", "valid")]
    assert sizes == [lines - lines // 100, lines // 100]
    assert (out / "train.prompt.bin").is_file()


def test_what_does_not_fit_is_counted(files, model, tmp_path):
    splits, records, _ = files
    (tmp_path / "given.model").write_bytes(model)
    said = make_prompts(splits, [], tmp_path / "a", tmp_path / "given.model", lm_tokens=5)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    sizes = [[len(processor.encode(part)) for part in record] for record in records["train"]]
    left_out = sum(q + r + 1 > 5 for q, _, r in sizes)
    cut = sum(q + p + r + 1 > 5 for q, p, r in sizes) - left_out
    line = next(line for line in said.splitlines() if line.startswith("lm/train"))
    assert 0 < left_out < len(sizes) and f"; {left_out} records left out" in line
    assert f", {cut} with a prompt cut at its front" in line


def test_unknown_pieces_are_counted(model, tmp_path):
    (tmp_path / "given.model").write_bytes(model)
    path = write_records(tmp_path / "a.jsonl", [("é", "cat 한 dog 한", "yes")])
    said = make_prompts({"valid": path}, [], tmp_path / "a", tmp_path / "given.model")
    assert "; 3 tokens <unk>" in said


def test_only_lengths_are_kept_in_memory(model, tmp_path):
    (tmp_path / "given.model").write_bytes(model)
    prompt = some_text(1000, 1)
    path = write_records(tmp_path / "a.jsonl", [("", prompt, "cat")] * 400)
    assert path.stat().st_size > 2_000_000
    tracemalloc.start()
    make_prompts({"train": path}, [], tmp_path / "a", tmp_path / "given.model")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_500_000  # Python 3.14 needs 1.2 million itself


# What leaves nothing behind


def left(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir() if path.is_dir())


def test_errors_leave_nothing(files, model, tmp_path):
    splits, _, texts = files
    (tmp_path / "given.model").write_bytes(model)
    (tmp_path / "none.model").write_text("no model")
    bad = write_records(tmp_path / "bad.jsonl", [("q", "p", "r"), ("q", "p", "")])
    control = write_records(tmp_path / "control.jsonl", [("q", "p", "\u0001")])
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"caf\xe9\n")
    given = tmp_path / "given.model"
    cases = [
        ({"train": bad}, [], None, r"bad\.jsonl: line 2: 'response' is empty"),
        ({"train": splits["train"], "test": bad}, texts, given, r"bad\.jsonl: line 2:"),
        ({"test": control}, [], given, r"control\.jsonl: line 1: .* finds nothing in 'response'"),
        ({"train": splits["train"]}, [texts[0], latin], None, r"latin\.txt: line 1: not UTF-8"),
        ({"train": splits["train"]}, [latin], given, r"latin\.txt: line 1: not UTF-8"),
        (splits, [], tmp_path / "none.model", r"--spm .*none\.model: not a SentencePiece model"),
    ]
    for chosen, text, spm, message in cases:
        with pytest.raises(UserError, match=message):
            make_prompts(chosen, text, tmp_path / "bin", spm, vocab_size=130)
        assert not left(tmp_path)


def test_a_folder_that_is_there_is_kept(files, model, tmp_path):
    splits, *_ = files
    for name, content in (("one.model", model), ("two.model", b"other")):
        (tmp_path / name).write_bytes(content)
    out = tmp_path / "bin"
    make_prompts({"test": splits["test"]}, [], out, tmp_path / "one.model")
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    for spm, more in (("one", ""), ("two", ", made with another SentencePiece model than --spm")):
        with pytest.raises(UserError, match=f"--out .*bin: is there already{more}"):
            make_prompts(splits, [], out, tmp_path / f"{spm}.model")
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == before
    shutil.rmtree(out)
    out.mkdir()
    with pytest.raises(UserError, match=r"--out .*bin: is there already; give another"):
        make_prompts(splits, [], out, tmp_path / "one.model")


def test_what_an_interrupted_run_left_is_replaced(tmp_path):
    (tmp_path / ".bin.unfinished").mkdir()
    (tmp_path / ".bin.unfinished/old").touch()
    with atomic_folder(tmp_path / "bin") as folder:
        (folder / "new").touch()
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["new"]
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "other") as folder:
        (folder / "new").touch()
        raise KeyboardInterrupt
    assert left(tmp_path) == ["bin"]


def test_a_users_folder_is_left_alone(tmp_path):
    (tmp_path / "bin.tmp").mkdir()
    (tmp_path / "bin.tmp/mine").touch()
    with atomic_folder(tmp_path / "bin"):
        pass
    assert (tmp_path / "bin.tmp/mine").exists() and left(tmp_path) == ["bin", "bin.tmp"]
