"""What the importers of decoder-only language models share."""

from collections.abc import Iterable
from typing import Optional

from torch import Tensor

from pet_fairseq.pretrained.source import Config, Source
from pet_fairseq.pretrained.vocabulary import Vocabulary, make_vocabulary
from pet_fairseq.pretrained.writer import Import


def lm_vocabulary(source: Source, rows: int) -> Vocabulary:
    """fairseq's dictionary of a language model.

    fairseq's <pad> gets no row of the embeddings: such models have no padding word, or use another
    word for it.
    """
    config, tokenizer = source.config, source.tokenizer
    start, end = (special_number(config, f"{name}_token_id") for name in ("bos", "eos"))
    unknown = tokenizer.special_number("unk_token")
    special = {"<s>": end if start is None else start, "</s>": end, "<unk>": unknown}
    return make_vocabulary(tokenizer.pieces(), rows, special, tokenizer.path)


def special_number(config: Config, name: str) -> Optional[int]:
    """The number of a special token in config.json, None without one; of several, the first."""
    value = config.get(name)
    return value[0] if isinstance(value, list) and value else value


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
        ["--bpe", "tokenizer_json", "--tokenizer-file", "{}/tokenizer.json"],
    )
