"""Random translation models of fairseq, with the subword models."""

from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq import tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from omegaconf import OmegaConf
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.huggingface.writer import NO_OPTIMIZER
from tests.huggingface.translators import FIRST, sentence_model

TEXTS = [
    "The cat sat on the mat.",
    "A dog ate",
    "Rats eat oats, and the hat ran!",
    "  It's a cat-nap & that's that: the rat, the hat and a dog ran on  ",
    "o\u00e9o \u4e2d x",  # letters that the model does not know
    "cat",
]
SHARED = {"share_all_embeddings": True}
TIED = {"share_decoder_input_output_embed": True}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 2, "attention_heads": 4}
SHAPE = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in SIZES.items()}


@dataclass
class Made:
    """A checkpoint and its data folder, with the subword model beside it."""

    checkpoint: str
    data: str


def bpe_pieces(folder: Path) -> list[str]:
    """Codes of subword-nmt for TEXTS in a folder; returns the pieces of the texts' words."""
    words = [word.lower() for text in TEXTS[:4] for word in text.split()]
    codes = folder / "bpe.codes"
    with codes.open("w", encoding="utf-8") as file:
        learn_bpe([" ".join(words)], file, 12)
    with codes.open(encoding="utf-8") as file:
        segmented = BPE(file).process_line(" ".join(words)).split()
    letters = sorted(set("".join(TEXTS[:4])) - {" "})
    return [*dict.fromkeys([*segmented, *letters, *(f"{letter}@@" for letter in letters)])]


def sentence_pieces(folder: Path) -> list[str]:
    """A SentencePiece model in a folder; returns its pieces without fairseq's own."""
    return sentence_model(folder / "spm.model")[3:]


def json_pieces(folder: Path, texts=TEXTS[:4], kind: str = "bpe", size: int = 60) -> list[str]:
    """A tokenizer.json in a folder; returns its pieces without fairseq's own.

    Args:
        kind: bpe, unigram, or bytes: bpe of bytes.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    special = {"special_tokens": [*FIRST, "<mask>", "deu_Latn"], "show_progress": False}
    if kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=size, unk_token=FIRST[3], **special)
    else:
        tokenizer = Tokenizer(models.BPE(unk_token=FIRST[3] if kind == "bpe" else None))
        letters = pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else []
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=letters, **special)
    spaces = "ByteLevel" if kind == "bytes" else "Metaspace"
    tokenizer.pre_tokenizer = getattr(pre_tokenizers, spaces)()
    tokenizer.decoder = getattr(decoders, spaces)()
    tokenizer.train_from_iterator(iter(texts), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return [tokenizer.id_to_token(i) for i in range(4, tokenizer.get_vocab_size())]


def marian_pieces(folder: Path) -> list[str]:
    """The two SentencePiece models of Marian in a folder, and a language token among the pieces."""
    pieces = sentence_model(folder / "source.spm")
    (folder / "target.spm").write_bytes((folder / "source.spm").read_bytes())
    return [">>fra<<", *pieces[3:]]


def write_dictionary(file: Path, words: list[str]) -> None:
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    dictionary.save(str(file))


def make(
    folder: Path, arch: str, pieces=bpe_pieces, separate: bool = False, change=None, **options
) -> Made:
    """A random model, whose translations end, in files.

    Args:
        pieces: writes what divides words, and returns the words.
        change: makes the model a random one, by default `randomise`.
        separate: whether the target has words of its own.
    """
    folder.mkdir(exist_ok=True)
    words = pieces(folder)
    write_dictionary(folder / "dict.de.txt", words)
    write_dictionary(folder / "dict.en.txt", words[3:][::-1] if separate else words)
    words = [str(folder), "--task", "translation", "--arch", arch, *("--source-lang", "de")]
    words += ["--target-lang", "en", "--max-source-positions", "99", "--max-target-positions", "60"]
    words += [word for name, value in (SHAPE | options).items() for word in option(name, value)]
    torch.manual_seed(1)
    cfg = convert_namespace_to_omegaconf(
        parse_args_and_arch(get_training_parser(), [*words, "--dropout", "0.0"])
    )
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    (change or randomise)(model)
    path = folder / "checkpoint.pt"
    container = OmegaConf.to_container(cfg, enum_to_str=True)
    save_state(new_state(container, model.state_dict(), [NO_OPTIMIZER], {}), path)
    return Made(str(path), str(folder))


def option(name: str, value: object) -> list[str]:
    """An option of the model as the words of a command."""
    values = [] if value is True else value if isinstance(value, list) else [str(value)]
    return [f"--{name.replace('_', '-')}", *values]


@torch.no_grad()
def randomise(model: torch.nn.Module) -> None:
    """No bias is 0, no norm the identity, and `</s>` is likelier than most words."""
    for parameter in model.parameters():
        parameter.add_(0.25 * torch.randn_like(parameter))
    decoder = model.decoder
    end = decoder.output_projection.weight[2]
    last = decoder.layer_norm or decoder.layers[-1].final_layer_norm
    last.bias.add_(end * 0.5 / end.square().sum())
    bias = decoder.output_projection.bias
    if bias is not None:
        bias.normal_()
