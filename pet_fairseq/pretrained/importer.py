"""`pet-fairseq import-hf`: turns other libraries' files into a folder for fairseq's commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.pretrained.bart import read_bart
from pet_fairseq.pretrained.bert import read_bert
from pet_fairseq.pretrained.gguf_file import read_gguf
from pet_fairseq.pretrained.gpt2 import read_gpt2
from pet_fairseq.pretrained.llama import read_llama
from pet_fairseq.pretrained.marian import read_marian
from pet_fairseq.pretrained.roberta import read_roberta
from pet_fairseq.pretrained.source import CONFIG, Config, Source, open_weights, read_config
from pet_fairseq.pretrained.tokenizer_file import read_tokenizer
from pet_fairseq.pretrained.writer import Import, check_out, write_import

# the function that reads a model, by its model_type in config.json
FAMILIES: dict[str, Callable[[Source], Import]] = {
    "bert": read_bert,
    "roberta": read_roberta,
    "xlm-roberta": read_roberta,
    "camembert": read_roberta,
    "bart": read_bart,
    "mbart": read_bart,
    "marian": read_marian,
    "gpt2": read_gpt2,
    "llama": read_llama,
    "mistral": read_llama,
    "qwen2": read_llama,
}


def import_model(path: Path, out: Path) -> str:
    """Write a model's folder for fairseq; returns a line for the terminal.

    Args:
        path: a folder of Hugging Face's files, a GGUF file, or a folder with one GGUF file.
    Raises:
        UserError: files that are missing, damaged or of a model that is not supported, or `out`
            exists already.
    """
    check_out(out)
    source = open_source(path)
    model = FAMILIES[source.config["model_type"]](source)
    write_import(model, out, source.weights.path)
    return f"wrote {out}: {' '.join(model.arch)}, {model.description}"


def open_source(path: Path) -> Source:
    """Open the files; their tensors are read later.

    Raises:
        UserError: as `import_model`.
    """
    gguf = find_gguf(path)
    if gguf is not None:
        return read_gguf(gguf)
    config = read_config(path)
    check_family(config)
    return Source(path, config, open_weights(path), lambda: read_tokenizer(path))


def check_family(config: Config) -> None:
    """Raises UserError if the model's type is not supported."""
    kind = config["model_type"]
    if kind not in list(FAMILIES):
        raise UserError(
            f"{config.path}: is a model of type {kind}, which is not supported; supported are "
            f"{', '.join(FAMILIES)}"
        )


def find_gguf(path: Path) -> Optional[Path]:
    """The GGUF file that a path means: itself, or the only one in a folder without config.json."""
    if path.is_file():
        return path
    files = sorted(path.glob("*.gguf"))
    return files[0] if len(files) == 1 and not (path / CONFIG).exists() else None
