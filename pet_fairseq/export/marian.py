"""`pet-fairseq export --to marian`: a folder for Marian and for Bergamot, the engine of Firefox.

Marian reads model.npz, and Bergamot a file of Marian's binary format, in float32 or with 8-bit
matrices. Both segment text by vocab.spm, whose pieces are numbered as the rows of the embeddings.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Optional

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from pet_fairseq.checkpoints.loading import load_transformer
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import write_languages
from pet_fairseq.errors import UserError, first_given, option_of
from pet_fairseq.export.ctranslate2 import (
    check_for_ctranslate2,
    float32_or_int8,
    language_tokens,
)
from pet_fairseq.export.fairseq import check_plain_form, plain_options, weights_in_use
from pet_fairseq.export.forms import (
    EMBEDDINGS,
    NO_ROOM,
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    layer_numbers,
)
from pet_fairseq.export.forms import positions as positions_of
from pet_fairseq.export.marian_files import NPZ, write_binary, write_configurations, write_npz
from pet_fairseq.export.tokenizers import SEGMENTATION, find_segmentation_file
from pet_fairseq.huggingface.marian_model import MarianModel, engine_positions
from pet_fairseq.multilingual.subword_restriction import read_sentencepiece
from pet_fairseq.nn.architectures import architecture_name, model_class
from pet_fairseq.nn.layers import STACKS
from pet_fairseq.nn.output_bias import ABSENT
from pet_fairseq.predict.bergamot import VOCABULARY
from pet_fairseq.predict.text import bpe_options

TO = "--to marian"
# Bergamot's files and its precision for them; its package knows int8 files by this name
BINARIES = {
    "float32": ("model.float32.bin", "float32"),
    "int8": ("model.intgemm8.bin", "int8shiftAll"),
}
STUDENT = "train a student with --arch marian_student"
EQUAL = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")  # in both stacks
COLUMNS = 64  # the inner dimension of 8-bit products is a multiple of it on all processors
PIECES = 8  # and the outer one of this
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
# what Marian wants to know of models, and this kind of them does not use
UNUSED: dict[str, object] = {
    **{"transformer-decoder-autoreg": "self-attention", "transformer-tied-layers": []},
    **{"transformer-decoder-dim-ffn": 0, "transformer-decoder-ffn-depth": 0},
    **{"transformer-depth-scaling": False, "transformer-no-projection": False},
    **{"transformer-guided-alignment-layer": "last", "transformer-rnn-projection": False},
    **{"transformer-aan-activation": "swish", "transformer-aan-depth": 2},
    **{"transformer-aan-nogate": False, "transformer-dim-aan": 2048},
    **{"transformer-pool": False, "dim-rnn": 1024, "enc-type": "bidirectional"},
    **{"enc-cell": "gru", "enc-cell-depth": 1, "dec-cell": "gru"},
    **{"dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "skip": False},
    **{"layer-normalization": False, "right-left": False, "input-types": []},
    **{"factors-combine": "sum", "factors-dim-emb": 0, "output-omit-bias": False},
    **{"lemma-dim-emb": 0, "lemma-dependency": "", "ulr": False, "ulr-dim-emb": 0},
    **{"ulr-trainable-transformation": False},
    **{"bert-train-type-embeddings": True, "bert-type-vocab-size": 2},
}


def write_marian(
    checkpoint: str,
    data: str,
    folder: Path,
    precision: str = "fp32",
    segmentation: Optional[str] = None,
) -> None:
    """Write a model for Marian and for Bergamot, its vocabulary and the options of both.

    Args:
        checkpoint: a translation model. data: fairseq-preprocess's folder.
        precision: of Bergamot's file, fp32 or int8.
        segmentation: the SentencePiece model; None for the one that `translate`
            would find.
    Raises:
        UserError: names the option or file and the reason.
    """
    name = float32_or_int8(precision, TO)
    cfg = load_options(checkpoint, "CHECKPOINT")
    check_kind(cfg.model, checkpoint)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    words = task.source_dictionary
    file = find_segmentation_file(segmentation, checkpoint, cfg, data, words)
    options = plain_options(model, cfg.model)
    check_options(options, cfg.model.swish)
    weights = weights_in_use(model)
    check_weights(weights, options, task)
    if name == "int8" and options.encoder_embed_dim % COLUMNS:
        raise UserError(
            f"--precision int8: the model's width {options.encoder_embed_dim} is not a multiple of "
            f"{COLUMNS}, which 8-bit products need; give fp32, or train another width"
        )
    vocabulary = make_vocabulary(check_segmentation(file), words)
    tensors = {
        name: tensor.detach().float().numpy()
        for name, tensor in marian_tensors(weights, vocabulary)
    }
    text = model_options(options, cfg.model.swish, tensors)
    binary, gemm = BINARIES[name]
    write_npz(folder / NPZ, tensors, text)
    write_binary(folder / binary, tensors, text, rounds=name == "int8")
    (folder / VOCABULARY).write_bytes(vocabulary.model)
    write_configurations(folder, binary, gemm)
    write_languages(folder, task.cfg.source_lang, task.cfg.target_lang)


# --- what it can hold -----------------------------------------------------------------------------


def check_kind(options: Any, path: str) -> None:
    """Raise UserError for a checkpoint whose model is none of Marian's kind."""
    arch = architecture_name(options)
    holds = f"CHECKPOINT {path}: holds {ARCH_MODEL_NAME_REGISTRY.get(arch, arch)}"
    if language_tokens(options) is not None:
        raise UserError(
            f"{holds}: it puts language tokens around sentences, which Marian does not; distil it "
            f"into a student with --arch marian_student{or_ctranslate2(options)}"
        )
    if not issubclass(model_class(options), MarianModel):
        check_plain_form(options, path)  # without one CTranslate2 cannot hold it, either
        raise UserError(
            f"{holds}, whose positions and first word are not Marian's; {STUDENT} (pet-fairseq "
            f"compress --student-form marian){or_ctranslate2(options)}"
        )


def refuse(what: str, options: Namespace) -> NoReturn:
    """Raise UserError for what Marian lacks in a model; options: of the model."""
    way_out = f"{STUDENT}{or_ctranslate2(options)}"
    raise UserError(f"{TO}: Marian has no room for {what}; {way_out}")


def or_ctranslate2(options: Namespace) -> str:
    """The end of an advice to users, if CTranslate2 has room for a model with these options."""
    try:
        check_for_ctranslate2(options)
    except UserError:
        return ""
    return ", or give --to ctranslate2"


def check_options(options: Namespace, swish: bool) -> None:
    """Check what Marian has no options for, or has otherwise.

    Raises:
        UserError: names the option.
    """
    if option := first_given(options, NO_ROOM):
        refuse(option, options)
    for name in EQUAL:
        encoder, decoder = (getattr(options, f"{stack}_{name}") for stack in STACKS)
        if encoder != decoder:
            what = f"{option_of(f'encoder_{name}')} {encoder} beside {decoder} in the decoder"
            refuse(what, options)
    if options.encoder_normalize_before:
        refuse("--encoder-normalize-before in this form", options)
    if getattr(options, "no_scale_embedding", False):
        refuse("--no-scale-embedding", options)
    if not swish and options.activation_fn != "relu":
        refuse(f"--activation-fn {options.activation_fn}, only for relu and --swish", options)


def check_weights(weights: Mapping[str, Tensor], options: Namespace, task: TranslationTask) -> None:
    """Check that all embeddings are one matrix, and what Marian's engine reads from no file.

    Raises:
        UserError: says what is otherwise in the model.
    """
    words = [weights[name] for name in (*EMBEDDINGS.values(), OUTPUT)]
    is_one = task.source_dictionary == task.target_dictionary
    if not is_one or not all(torch.equal(words[0], matrix) for matrix in words[1:]):
        raise UserError(
            f"{TO}: has one vocabulary and one matrix for all embeddings and the output, and this "
            "model has several; train one with --share-all-embeddings on data of "
            "fairseq-preprocess --joined-dictionary, or give --to ctranslate2"
        )
    for name in POSITIONS.values():
        table = positions_of(weights[name], 0)
        if not torch.allclose(table.float(), engine_positions(*table.shape), atol=1e-3):
            refuse("the positions of this model, as it has a formula of its own for them", options)
    if weights[EMBEDDINGS["decoder"]][task.target_dictionary.pad()].any():
        refuse("the word from which this model starts, as it starts from zeros", options)


def check_segmentation(file: str) -> Path:
    """The SentencePiece model; raises UserError if the file is none, or is not there."""
    if not file:
        raise UserError(
            f"{TO}: the model has no subword model, and Marian's engine segments text "
            "by SentencePiece; give --to ctranslate2"
        )
    if not Path(file).is_file():
        raise UserError(f"{SEGMENTATION} {file}: no such file; give a SentencePiece model")
    if "sentencepiece_model" not in bpe_options(file):
        raise UserError(
            f"{TO}: {file} segments its text, and Marian's engine takes SentencePiece models only; "
            "train a student on SentencePiece's pieces, or give --to ctranslate2"
        )
    return Path(file)


# --- vocabulary -----------------------------------------------------------------------------------


class MarianVocabulary(NamedTuple):
    """Marian's vocabulary.

    Attributes:
        model: a SentencePiece model. rows: for each of its pieces the number of a word.
        absent: the pieces that the dictionary does not have, which stand for the unknown word.
    """

    model: bytes
    rows: list[int]
    absent: list[int]


def make_vocabulary(file: Path, words: Dictionary) -> MarianVocabulary:
    """A SentencePiece model that segments text as another one does, for Marian.

    Marian takes the numbers of SentencePiece: 0 is `</s>` and 1 the unknown piece. Pieces that the
    dictionary lacks stay, as text is segmented into them, and words of one character that
    SentencePiece takes for unknown become pieces. A few without use make the number even enough.

    Raises:
        UserError: not a SentencePiece model, or one of other words.
    """
    proto = read_sentencepiece(file)
    kinds = type(proto).SentencePiece
    special = (kinds.UNKNOWN, kinds.CONTROL)
    pieces = [(p.piece, p.score, p.type) for p in proto.pieces if p.type not in special]
    names = {name for name, _, _ in pieces}
    own = words.symbols[words.nspecial :]
    if 2 * len(names.intersection(own)) < len(own):
        raise UserError(
            f"{SEGMENTATION} {file}: few of the dictionary's words are pieces of it; give the "
            "SentencePiece model of the training text"
        )
    lowest = min(score for _, score, _ in pieces)
    pieces += [(word, lowest, kinds.NORMAL) for word in own if len(word) == 1 and word not in names]
    fill = -(len(pieces) + 2) % PIECES
    pieces += [(f"<unused{i}>", 0.0, kinds.UNUSED) for i in range(fill)]
    first = [("</s>", 0.0, kinds.CONTROL), ("<unk>", 0.0, kinds.UNKNOWN)]
    del proto.pieces[:]
    for name, score, kind in (*first, *pieces):
        proto.pieces.add(piece=name, score=score, type=kind)
    trainer = proto.trainer_spec
    trainer.eos_id, trainer.unk_id, trainer.bos_id, trainer.pad_id = 0, 1, -1, -1
    trainer.eos_piece, trainer.unk_piece = "</s>", "<unk>"
    trainer.vocab_size = len(proto.pieces)
    rows = [words.eos(), words.unk(), *(words.index(name) for name, _, _ in pieces)]
    absent = [i for i, row in enumerate(rows) if row == words.unk() and i != 1]
    return MarianVocabulary(proto.SerializeToString(), rows, absent)


# --- tensors --------------------------------------------------------------------------------------


def marian_tensors(
    weights: Mapping[str, Tensor], vocabulary: MarianVocabulary
) -> Iterator[tuple[str, Tensor]]:
    """Yield a model's tensors as Marian has them: vectors are rows, matrices inputs x outputs.

    Args:
        weights: in fairseq's names, those of shared layers under each name.
    """
    rows = torch.tensor(vocabulary.rows)
    yield "Wemb", weights[OUTPUT][rows]
    bias = weights[OUTPUT_BIAS][rows]
    bias[vocabulary.absent] = ABSENT
    yield "decoder_ff_logit_out_b", bias[None]
    for stack in STACKS:
        for number in range(len(layer_numbers(weights, stack))):
            ours, theirs = f"{stack}.layers.{number}", f"{stack}_l{number + 1}"
            attentions = {"self": "self_attn"}
            if stack == "decoder":
                attentions["context"] = "encoder_attn"
            for name, attention in attentions.items():
                for letter, projection in ATTENTION.items():
                    linear = f"{ours}.{attention}.{projection}"
                    yield f"{theirs}_{name}_W{letter}", weights[f"{linear}.weight"].t()
                    yield f"{theirs}_{name}_b{letter}", weights[f"{linear}.bias"][None]
                yield from norm(weights, f"{ours}.{attention}_layer_norm", f"{theirs}_{name}_Wo")
            yield from feed_forward(weights, ours, f"{theirs}_ffn")
            yield from norm(weights, f"{ours}.final_layer_norm", f"{theirs}_ffn_ffn")


def norm(weights: Mapping[str, Tensor], ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    yield f"{theirs}_ln_scale", weights[f"{ours}.weight"][None]
    yield f"{theirs}_ln_bias", weights[f"{ours}.bias"][None]


def feed_forward(
    weights: Mapping[str, Tensor], ours: str, theirs: str
) -> Iterator[tuple[str, Tensor]]:
    """Yield a feed-forward network, with zeros in place of neurons up to a multiple of COLUMNS."""
    more = -len(weights[f"{ours}.fc1.bias"]) % COLUMNS
    yield f"{theirs}_W1", F.pad(weights[f"{ours}.fc1.weight"].t(), (0, more))
    yield f"{theirs}_b1", F.pad(weights[f"{ours}.fc1.bias"], (0, more))[None]
    yield f"{theirs}_W2", F.pad(weights[f"{ours}.fc2.weight"].t(), (0, 0, 0, more))
    yield f"{theirs}_b2", weights[f"{ours}.fc2.bias"][None]


def model_options(options: Namespace, swish: bool, tensors: Mapping[str, np.ndarray]) -> str:
    """What Marian has to know of a model, all of its options of models, as YAML.

    Args:
        options: of the model, with the heads that it uses. tensors: by Marian's names.
    """
    words, width = tensors["Wemb"].shape
    activation = "swish" if swish else "relu"
    layers = {
        s: sum(name.startswith(f"{s}_l") and name.endswith("_self_Wq") for name in tensors)
        for s in STACKS
    }
    content = {
        "type": "transformer",
        "version": "v1.9.0",
        "dim-emb": width,
        "dim-vocabs": [words, words],
        "enc-depth": layers["encoder"],
        "dec-depth": layers["decoder"],
        "tied-embeddings": False,
        "tied-embeddings-all": True,
        "tied-embeddings-src": False,
        "transformer-heads": options.encoder_attention_heads,
        "transformer-dim-ffn": tensors["encoder_l1_ffn_b1"].shape[1],
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": activation,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-train-position-embeddings": False,
    }
    return yaml.safe_dump(content | UNUSED)
