"""What the importers of encoder-decoders share: layers have the same names in all files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from pet_fairseq.checkpoints.text_files import check_languages
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.source import CONFIG, Config, Weights, require_file
from pet_fairseq.huggingface.tokenizer_file import pieces_in_order, read_json
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary, make_vocabulary

ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
ENCODER = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")
DECODER = (*ENCODER, "encoder_attn_layer_norm")
BIAS = "final_logits_bias"
PAD = "<pad>"
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
SUFFIXES = ("source", "target")  # of the data files of models that name no languages


class BilingualText(NamedTuple):
    """The tokenizer of one pair of languages, and its dictionaries.

    Attributes:
        languages: of source and target. vocabularies: the same.
        write: writes the tokenizer's files into a folder.
        options: of fairseq, that turn text into words; `{}` is that folder.
    """

    languages: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    write: Callable[[Path], object]
    options: list[str]


def norm_parts(name: str) -> list[str]:
    """The tensors of a layer norm."""
    return [f"{name}.weight", f"{name}.bias"]


def shared_tensors(
    weights: Weights, config: Config, vocabulary: Vocabulary, parts: Sequence[str]
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a model with one matrix for all embeddings and the output.

    Args:
        parts: the tensors that each stack has besides those of its layers.
    """
    yield "encoder.embed_tokens.weight", vocabulary.take(weights["shared.weight"])
    for stack in ("encoder", "decoder"):
        for part in parts:
            yield f"{stack}.{part}", weights[f"{stack}.{part}"]
    yield from layer_tensors(weights, config)


def layer_tensors(weights: Weights, config: Config) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of all layers, which have the same names in fairseq."""
    for stack, modules, attentions in (
        ("encoder", ENCODER, ("self_attn",)),
        ("decoder", DECODER, ("self_attn", "encoder_attn")),
    ):
        parts = [f"{attention}.{part}" for attention in attentions for part in ATTENTION]
        for i in range(config.size(f"{stack}_layers")):
            for part in (*modules, *parts):
                for kind in ("weight", "bias"):
                    name = f"{stack}.layers.{i}.{part}.{kind}"
                    yield name, weights[name]


def size_options(config: Config) -> list[str]:
    """The options of both stacks' sizes."""
    options = []
    for stack in ("encoder", "decoder"):
        options += [f"--{stack}-layers", str(config.size(f"{stack}_layers"))]
        options += [f"--{stack}-embed-dim", str(config.size("d_model"))]
        options += [f"--{stack}-ffn-embed-dim", str(config.size(f"{stack}_ffn_dim"))]
        options += [f"--{stack}-attention-heads", str(config.size(f"{stack}_attention_heads"))]
    return options


def translation_task(source: str, target: str) -> list[str]:
    """The options of the translation task; source, target: the suffixes of its data files."""
    return [
        *("--task", "translation", "--criterion", "cross_entropy"),
        *("--source-lang", source, "--target-lang", target),
    ]


def position_limits(positions: int) -> list[str]:
    return ["--max-source-positions", str(positions), "--max-target-positions", str(positions)]


def read_pieces(
    path: Path, rows: int, pad: int, rename: Callable[[str], str] = lambda piece: piece
) -> Vocabulary:
    """The dictionary of a file with the number of every piece.

    Args:
        rows: of the embedding matrix. pad: the number of <pad> in config.json.
        rename: the word for a piece.
    Raises:
        UserError: no such file, or one that does not fit the model.
    """
    numbers = {rename(piece): number for piece, number in read_json(require_file(path)).items()}
    if sorted(numbers.values()) != list(range(len(numbers))):
        raise UserError(f"{path}: its numbers have gaps; download it again")
    if numbers.get(PAD) != pad:
        raise UserError(
            f"{path}: {PAD} is number {numbers.get(PAD)}, but pad_token_id in {CONFIG} is {pad}; "
            "give files that belong together"
        )
    return make_vocabulary(
        pieces_in_order(numbers, path),
        rows,
        {word: numbers.get(word) for word in FIRST},
        path,
    )


def dictionary_files(languages: Sequence[str], *vocabularies: Vocabulary) -> dict[str, str]:
    """The texts of the dictionaries' files, by name.

    Args:
        vocabularies: that of the source and that of the target, or one for both.
    Raises:
        UserError: a language that cannot be part of a file's name.
    """
    check_languages(languages, "CHECKPOINT")
    both = (vocabularies[0], vocabularies[-1])
    return {f"dict.{name}.txt": words.text() for name, words in zip(languages, both)}
