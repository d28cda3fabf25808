"""What the importers of decoder-only language models share."""

from collections.abc import Iterable
from typing import Optional

from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.source import Source
from pet_fairseq.huggingface.tokenizer_file import TEXT_OPTIONS
from pet_fairseq.huggingface.vocabulary import Vocabulary, make_vocabulary
from pet_fairseq.huggingface.writer import Import


def lm_vocabulary(source: Source, rows: int) -> Vocabulary:
    """fairseq's dictionary of a language model.

    fairseq's <pad> gets no row of the embeddings: such models have no padding word, or use another
    word for it.

    Raises:
        UserError: a special token without a row, or a tokenizer that does not fit.
    """
    tokenizer = source.tokenizer
    start, end = (special_row(source, name, rows) for name in ("bos", "eos"))
    unknown = tokenizer.special_number("unk_token")
    special = {"<s>": start, "</s>": end, "<unk>": unknown}
    if start is None and tokenizer.number("<s>") is None:
        special["<s>"] = end
    return make_vocabulary(tokenizer.pieces(), rows, special, tokenizer.path)


def special_row(source: Source, name: str, rows: int) -> Optional[int]:
    """The row that config.json gives for `bos` or `eos`, None without one.

    Of several it is the one that tokenizer_config.json names, or else the first.

    Raises:
        UserError: there is no such row.
    """
    key = f"{name}_token_id"
    value = source.config.get(key)
    if isinstance(value, list):
        named = source.tokenizer.special_number(f"{name}_token")
        value = named if named in value else next(iter(value), None)
    if value is not None and value not in range(rows):
        raise UserError(
            f"{source.config.path}: {key} is {value!r}, but the model has {rows:,} words; give the "
            "number of one of them there"
        )
    return value


def language_model(
    source: Source,
    arch: list[str],
    vocabulary: Vocabulary,
    tensors: Iterable[tuple[str, Tensor]],
    positions: int,
) -> Import:
    """Describe a language model to the writer.

    Args:
        positions: the longest text that it can read.
    """
    task = ["--task", "language_modeling", "--criterion", "cross_entropy"]
    task += ["--tokens-per-sample", str(positions), "--max-target-positions", str(positions)]
    return Import(
        task,
        arch,
        {"dict.txt": vocabulary.text()},
        tensors,
        f"{len(vocabulary):,} words",
        source.tokenizer.write,
        TEXT_OPTIONS,
    )
