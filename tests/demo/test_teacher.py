"""The teacher that comes with the package."""

import pytest
import sacrebleu
import sentencepiece

import pet_fairseq
from pet_fairseq.demo.corpus import TEACHER, TEACHER_PIECES, read_pairs, split_pairs
from pet_fairseq.quantisation.packing import unpack_model

SIZES = {"train": 25000, "valid": 500, "test": 500}  # as it was trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pet_fairseq.register()
    out = tmp_path_factory.mktemp("demo") / "teacher"
    unpack_model(str(TEACHER), out, {"spm.model": TEACHER_PIECES})
    return out


def test_its_pieces_are_those_of_its_file(folder):
    divide = sentencepiece.SentencePieceProcessor(model_file=str(TEACHER_PIECES)).encode
    known = {line.split(" ")[0] for line in (folder / "dict.fi.txt").read_text().splitlines()}
    pairs = split_pairs(read_pairs(), SIZES)["test"]
    pieces = [piece for pair in pairs for side in pair for piece in divide(side, out_type=str)]
    assert sum(piece not in known for piece in pieces) < 0.01 * len(pieces)


def test_it_translates(folder):
    """BLEU of 100 sentences of the test set, which it has not seen; a trained one has over 30."""
    sources, references = zip(*split_pairs(read_pairs(), SIZES)["test"][:100])
    translator = pet_fairseq.from_pretrained(str(folder))
    translations = translator.translate(list(sources), beam=1)
    assert sacrebleu.corpus_bleu(translations, [list(references)]).score > 25
