"""Teachers with fewer words."""

import io
import random

import pytest
import torch
from sentencepiece import SentencePieceProcessor
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from pet_fairseq.checkpoints.frozen_models import load_frozen_models
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.compress.data import data_stages
from pet_fairseq.compress.given import Given
from pet_fairseq.compress.preparation import corpus_stages
from pet_fairseq.compress.raw_text import (
    TextPair,
    write_pieces,
)
from pet_fairseq.compress.vocabulary import trim_teacher
from pet_fairseq.demo.corpus import train_pieces
from pet_fairseq.errors import UserError
from tests.compress.lines import read_lines, write_lines
from tests.translation import load_task, save_model

SETS = ("train", "valid", "test")


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
        write_lines(tmp_path / f"teacher/dict.{language}.txt", [f"{piece} 1" for piece in known])
    shared = request.param == "one dictionary"
    task = load_task(tmp_path / "teacher", max_source_positions=40, max_target_positions=40)
    save_model(tmp_path / "teacher/checkpoint.pt", task, share_all_embeddings=shared)
    files = [write_lines(tmp_path / side, draw.choices(texts[:30], k=200)) for side in ("s", "t")]
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
            for line in read_lines(tmp_path / "pieces/train.de")
        )
    else:
        assert sizes == (64, 64)
    write_pieces(trimmed, {"train": [TextPair(*files)]}, tmp_path / "text")
    if most is None:
        assert read_lines(tmp_path / "text/train.de") == read_lines(tmp_path / "pieces/train.de")
    source, target = (read_lines(tmp_path / f"text/train.{side}")[0] for side in ("de", "en"))
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
        write_lines(tmp_path / f"teacher/dict.{language}.txt", [f"{piece} 1" for piece in known])
    teacher = tmp_path / "teacher/checkpoint.pt"
    save_model(teacher, load_task(tmp_path / "teacher"), share_all_embeddings=True)
    files = [write_lines(tmp_path / side, texts[:200]) for side in ("s", "t")]
    sets = {split: [TextPair(*files)] for split in SETS}
    write_pieces(teacher, sets, tmp_path / "pieces")
    trim_teacher(teacher, tmp_path / "pieces", most, tmp_path / "trimmed")
    write_pieces(tmp_path / "trimmed/checkpoint.pt", sets, tmp_path / "text")
    kept = {line.split()[0] for line in read_lines(tmp_path / "trimmed/dict.en.txt")}
    segmented = read_lines(tmp_path / "text/train.en")
    assert {piece for line in segmented for piece in line.split()} <= kept
    assert [f"{line} ".replace("@@ ", "").strip() for line in segmented] == texts[:200]
    assert most is None or 30 < len(kept) <= most < len(known)
    if most is None:
        assert segmented == read_lines(tmp_path / "pieces/train.en")


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
    strange = write_lines(tmp_path / "strange", [f"{line} ÄÖ" for line in read_lines(files[0])])
    write_pieces(teacher, {"train": [TextPair(strange, files[1])]}, tmp_path / "pieces")
    others = [text.translate(str.maketrans("abcdefgh", "stuvwxyz")) for text in texts]
    teacher.with_name("spm.model").write_bytes(train_pieces(others, 200))
    message = r"spm.model: \d+% of its pieces are no words of TEACHER; put the subword model of"
    with pytest.raises(UserError, match=message):
        write_pieces(teacher, {"train": [TextPair(*files)]}, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match=message):
        corpus_stages(Given(teacher, tmp_path / "out", text=(files[0],)), teacher)


def test_text_with_capital_letters_for_a_teacher_without(in_pieces, tmp_path):
    """fairseq's IWSLT recipe puts all text into lower case; the subword model is the right one."""
    teacher, files, _ = in_pieces
    cased = [
        write_lines(tmp_path / f"cased_{file.name}", map(str.title, read_lines(file)))
        for file in files
    ]
    message = r"{}: \d+% of its pieces have capital letters, and the dictionary of TEACHER has none"
    for pair in ((cased[0], files[1]), (files[0], cased[1])):
        wrong = next(file for file in pair if file in cased)
        with pytest.raises(UserError, match=message.format(wrong)):
            write_pieces(teacher, {"train": [TextPair(*pair)]}, tmp_path / "out")
    with pytest.raises(UserError, match=message.format("--text")):
        corpus_stages(Given(teacher, tmp_path / "out", text=(cased[0],)), teacher)
    few = [line.title() if n == 0 else line for n, line in enumerate(read_lines(files[0]))]
    pair = TextPair(write_lines(tmp_path / "few", few), files[1])
    write_pieces(teacher, {"train": [pair]}, tmp_path / "out")
