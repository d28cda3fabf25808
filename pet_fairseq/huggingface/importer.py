"""`pet-fairseq import-hf`: turns other libraries' files into a folder for fairseq's commands."""

from collections.abc import Callable
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError, option_of
from pet_fairseq.files import check_new_folder
from pet_fairseq.huggingface.bart import read_bart
from pet_fairseq.huggingface.bert import read_bert
from pet_fairseq.huggingface.distilbert import read_distilbert
from pet_fairseq.huggingface.fsmt import read_fsmt
from pet_fairseq.huggingface.gguf_file import read_gguf
from pet_fairseq.huggingface.gpt2 import read_gpt2
from pet_fairseq.huggingface.llama import read_llama
from pet_fairseq.huggingface.m2m_100 import read_m2m
from pet_fairseq.huggingface.marian import read_marian
from pet_fairseq.huggingface.roberta import read_roberta
from pet_fairseq.huggingface.source import CONFIG, Config, Source, open_weights, read_config
from pet_fairseq.huggingface.t5 import read_t5
from pet_fairseq.huggingface.tokenizer_file import read_tokenizer
from pet_fairseq.huggingface.writer import Import, write_import

# the function that reads a model, by its model_type in config.json
FAMILIES: dict[str, Callable[[Source], Import]] = {
    "bert": read_bert,
    "distilbert": read_distilbert,
    "roberta": read_roberta,
    "xlm-roberta": read_roberta,
    "camembert": read_roberta,
    "bart": read_bart,
    "mbart": read_bart,
    "m2m_100": read_m2m,
    "marian": read_marian,
    "fsmt": read_fsmt,
    "t5": read_t5,
    "mt5": read_t5,
    "umt5": read_t5,
    "gpt2": read_gpt2,
    "llama": read_llama,
    "mistral": read_llama,
    "qwen2": read_llama,
    "qwen3": read_llama,
}
TRANSLATORS = ("mbart", "m2m_100", "marian", "fsmt")  # whose languages a user may choose
# what the library transformers takes for options that config.json lacks, where it matters
SENTENCE_DEFAULTS: dict[str, object] = {"layer_norm_eps": 1e-12}
QWEN_DEFAULTS: dict[str, object] = {
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "num_key_value_heads": 32,
}
T5_DEFAULTS: dict[str, object] = {
    "d_kv": 64,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "gated-gelu",
    "pad_token_id": 0,
    "eos_token_id": 1,
}
DEFAULTS: dict[str, dict[str, object]] = {
    "roberta": SENTENCE_DEFAULTS,
    "xlm-roberta": SENTENCE_DEFAULTS,
    "camembert": SENTENCE_DEFAULTS,
    "m2m_100": {"activation_function": "relu", "scale_embedding": True},
    "fsmt": {"activation_function": "relu", "scale_embedding": True, "pad_token_id": 1},
    "t5": T5_DEFAULTS | {"feed_forward_proj": "relu"},
    "mt5": T5_DEFAULTS,
    "umt5": T5_DEFAULTS,
    "gpt2": {"activation_function": "gelu_new"},
    "mistral": {"sliding_window": 4096, "num_key_value_heads": 8},
    "qwen2": QWEN_DEFAULTS,
    "qwen3": QWEN_DEFAULTS | {"head_dim": 128},
}
OTHER_FILES = (".json", ".safetensors", ".bin")  # of a folder that is to be given as a whole


def import_model(
    path: Path, out: Path, source_lang: Optional[str] = None, target_lang: Optional[str] = None
) -> str:
    """Write a model's folder for fairseq; returns a line for the terminal.

    Args:
        path: a folder of Hugging Face's files, a GGUF file, or a folder with one GGUF file.
        source_lang, target_lang: those of a model of several languages that are to be used.
    Raises:
        UserError: files that are missing, damaged or of a model that is not supported, languages
            that it does not know, or `out` exists already.
    """
    check_new_folder(out, "--out")
    source = open_source(path)
    chosen = {"source_lang": source_lang, "target_lang": target_lang}
    source.languages = {name: language for name, language in chosen.items() if language is not None}
    check_languages(source)
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
    config = Config(DEFAULTS.get(config["model_type"], {}) | config, config.path)
    return Source(path, config, open_weights(path), lambda: read_tokenizer(path))


def check_family(config: Config) -> None:
    """Raises UserError if the model's type is not supported, or its weights are quantised."""
    kind = config["model_type"]
    if kind not in list(FAMILIES):
        raise UserError(
            f"{config.path}: is a model of type {kind}, which is not supported; supported are "
            f"{', '.join(FAMILIES)}"
        )
    if config.get("quantization_config"):
        raise UserError(
            f"{config.path}: has a quantization_config; give the model's files in float16, "
            "bfloat16 or float32"
        )


def check_languages(source: Source) -> None:
    """Raises UserError for languages of a model that does not translate, or two that are one."""
    kind = source.config["model_type"]
    for name in source.languages:
        if kind not in TRANSLATORS:
            raise UserError(
                f"{option_of(name)}: a model of type {kind} has no languages to choose from; leave "
                "it out"
            )
    if len(set(source.languages.values())) < len(source.languages):
        raise UserError(
            f"--target-lang {source.languages['target_lang']}: is the --source-lang too; give two "
            "languages"
        )


def find_gguf(path: Path) -> Optional[Path]:
    """The GGUF file that a path means: itself, or the only one in a folder without config.json.

    Raises:
        UserError: one of Hugging Face's files, or a folder with several GGUF files.
    """
    if path.is_file():
        if path.suffix in OTHER_FILES:
            raise UserError(f"{path}: give the folder with all of the model's files")
        return path
    files = [] if (path / CONFIG).exists() else sorted(path.glob("*.gguf"))
    if len(files) > 1:
        raise UserError(f"{path}: has {len(files)} GGUF files; give one, such as {files[0]}")
    return files[0] if files else None
