"""The demo's corpus: short sentences of Tatoeba, Finnish to English, split and in pieces.

ATTRIBUTION.md in this folder says where the sentences come from, and under which licence. Beside it
is a teacher that scripts/demo_teacher.sh trained on them.
"""

import io
import lzma
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import sentencepiece

from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, write_lines

Pair = tuple[str, str]  # Finnish, English

PAIRS = Path(__file__).with_name("tatoeba.fi-en.tsv.xz")
TEACHER = Path(__file__).with_name("teacher.packed")  # as `pet-fairseq pack` writes it
TEACHER_PIECES = Path(__file__).with_name("teacher.spm.model")
SIDES = ("fi", "en")
HELD_OUT = ("test", "valid")


def read_pairs() -> list[Pair]:
    """Read all pairs, the short ones first."""
    lines = lzma.decompress(PAIRS.read_bytes()).decode("utf-8").splitlines()
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def split_pairs(pairs: Iterable[Pair], sizes: Mapping[str, int]) -> dict[str, list[Pair]]:
    """Draw the parts test, valid and train, always the same ones.

    A sentence of test or valid, in either language, is in no other part. Many English sentences
    have several translations, of which these two parts keep one.

    Args:
        sizes: pairs in each part; a part may end up with fewer.
    """
    translations: dict[str, list[str]] = defaultdict(list)  # of an English sentence
    english: dict[str, list[str]] = defaultdict(list)  # of a Finnish one
    for finnish_sentence, english_sentence in pairs:
        translations[english_sentence].append(finnish_sentence)
        english[finnish_sentence].append(english_sentence)
    draw = random.Random(1)
    sentences = list(translations)
    draw.shuffle(sentences)
    apart = [e for e in sentences if all(english[f] == [e] for f in translations[e])]
    parts, held_out = {}, set()
    for name in HELD_OUT:
        chosen, apart = apart[: sizes[name]], apart[sizes[name] :]
        parts[name] = [(translations[e][0], e) for e in chosen]
        held_out.update(chosen)
    rest = [(f, e) for e in sentences if e not in held_out for f in translations[e]]
    draw.shuffle(rest)
    return parts | {"train": rest[: sizes["train"]]}


def train_pieces(
    sentences: Iterable[str], number: int, option: str = "--pieces", coverage: float = 1.0
) -> bytes:
    """Train a SentencePiece model of `number` pieces, by byte-pair encoding.

    Args:
        option: names the number in errors. coverage: which part of all characters has pieces.
    Returns:
        the content of its file.
    Raises:
        UserError: the sentences have too few different pieces, or more characters than pieces.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="bpe",
            vocab_size=number,
            character_coverage=coverage,
            minloglevel=2,
        )
    except RuntimeError as error:
        if "too high" in str(error):
            problem = "the training sentences have fewer; give a smaller number"
        else:
            problem = "the training sentences have more characters; give a larger number"
        raise UserError(f"{option} {number}: {problem}") from None
    return model.getvalue()


def write_corpus(out: Path, sizes: Mapping[str, int], pieces: int) -> dict[str, int]:
    """Write spm.model, and raw/ and pieces/ with {train,valid,test}.{fi,en}, into a new folder.

    Args:
        sizes: as for split_pairs. pieces: how many, of both languages together.
    Returns:
        how many pairs each part has.
    Raises:
        UserError: a size leaves nothing for another part, or wrong `pieces` for these sentences.
        OSError: the folder cannot be written.
    """
    parts = split_pairs(read_pairs(), sizes)
    if not parts["valid"]:
        raise UserError(
            f"--test-size {sizes['test']}: leaves no pairs for valid; give less than "
            f"{len(parts['test'])}"
        )
    model = train_pieces((side for pair in parts["train"] for side in pair), pieces)
    segment = sentencepiece.SentencePieceProcessor(model_proto=model).encode
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as folder:
        (folder / "spm.model").write_bytes(model)
        for kind in ("raw", "pieces"):
            (folder / kind).mkdir()
        for name, pairs in parts.items():
            for side, sentences in zip(SIDES, zip(*pairs)):
                write_lines(folder / "raw" / f"{name}.{side}", sentences)
                segmented = map(" ".join, segment(list(sentences), out_type=str))
                write_lines(folder / "pieces" / f"{name}.{side}", segmented)
    return {name: len(pairs) for name, pairs in parts.items()}
