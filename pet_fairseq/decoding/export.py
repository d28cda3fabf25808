"""`pet-fairseq export`: a translation model for engines that do not know this package."""

import importlib.util
import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, NoReturn, Optional

from fairseq.models import FairseqModel
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import DictConfig, OmegaConf

from pet_fairseq.checkpoints.contents import new_state, save_state
from pet_fairseq.checkpoints.loading import load_task, load_transformer
from pet_fairseq.checkpoints.safe_loading import load_checkpoint, load_options
from pet_fairseq.checkpoints.text_files import (
    around_data,
    copy_subword_files,
    folders_around,
    write_languages,
)
from pet_fairseq.checkpoints.translation import check_translation_model
from pet_fairseq.decoding.ctranslate2_form import has_ctranslate2_form, write_ctranslate2_form
from pet_fairseq.decoding.plain import check_plain_form, plain_model
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, read_text, write_json
from pet_fairseq.multilingual.language_tokens import END, LanguageTokens
from pet_fairseq.multilingual.models import Bilingual
from pet_fairseq.nn.architectures import model_class

MODEL = "model.pt"
MISSING = "ctranslate2 is missing; pip install 'pet-fairseq[ctranslate2]'"
# CTranslate2's types of weights, which it calls quantizations
QUANTIZATIONS = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)
SHORT = {"auto": "float32", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
# what CTranslate2's converter knows, and the options for which its models have no room
ACTIVATIONS = ("relu", "gelu", "gelu_accurate", "gelu_fast")
NO_ROOM = (
    "no_token_positional_embeddings",
    "no_cross_attention",
    "cross_self_attention",
    "adaptive_softmax_cutoff",
    "quant_noise_pq",
    "base_layers",
)
TASK_OPTIONS = set(TranslationConfig.__dataclass_fields__)


def export(checkpoint: str, data: str, to: str, out: Path, precision: Optional[str] = None) -> None:
    """Write a folder with the model's plain form and its dictionaries.

    Args:
        checkpoint: a Transformer or PET model; data: fairseq-preprocess's folder; to: "fairseq"
        for OUT/model.pt, "ctranslate2" for a folder that its Translator opens; precision: one of
        QUANTIZATIONS or SHORT, for ctranslate2 only; None stands for float32.
    Raises:
        UserError: names the option or file and the reason.
    """
    if precision is not None and to != "ctranslate2":
        raise UserError("--precision: only for --to ctranslate2; leave it out")
    quantization = SHORT.get(precision or "auto", precision)
    if quantization not in QUANTIZATIONS:
        names = ", ".join([*SHORT, *QUANTIZATIONS[3:]])
        raise UserError(f"--precision {precision}: give one of {names}")
    if out.exists():
        raise UserError(f"--out {out}: exists; give the name of a new folder")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: {out.parent} is not a folder; create it first")
    with atomic_folder(out) as folder:
        cfg = load_options(checkpoint, "CHECKPOINT")
        if to == "fairseq":
            write_fairseq(checkpoint, data, folder)
            add_subword_files(checkpoint, cfg, data, folder)
            return
        options = cfg["model"]
        tokens = language_tokens(options)
        if has_ctranslate2_form(options):
            convert_ctranslate2_form(checkpoint, data, folder, quantization)
        else:
            plain, converted = folder / "plain", folder / "converted"
            plain.mkdir()
            written = write_fairseq(checkpoint, data, plain, without_tokens=tokens is not None)
            write_ctranslate2(plain, written, converted, quantization)
            for file in converted.iterdir():
                file.rename(folder / file.name)
            converted.rmdir()
            shutil.rmtree(plain)
        if tokens is not None:
            add_language_tokens(folder, tokens)
        add_subword_files(checkpoint, cfg, data, folder)
        write_languages(folder, load_task(cfg["task"], data).cfg)


def add_subword_files(checkpoint: str, cfg: DictConfig, data: str, folder: Path) -> None:
    """Copy the files that divide text into a model's words, as far as they are found.

    Args:
        cfg: the checkpoint's configuration. data: as for `export`.
    """
    copy_subword_files([*around_data(Path(data)), *folders_around(checkpoint, cfg)], folder)


def language_tokens(options: Any) -> Optional[LanguageTokens]:
    """The words that a model puts around sentences; None for all models but bilingual ones."""
    is_bilingual = issubclass(model_class(options), Bilingual)
    return LanguageTokens.of_options(options) if is_bilingual else None


def add_language_tokens(folder: Path, tokens: LanguageTokens) -> None:
    """Let a folder in CTranslate2 say which words its sentences need.

    What stands behind a sentence is given by who translates, and the end that CTranslate2 would add
    is not added.
    """
    file = folder / "config.json"
    config = json.loads(read_text(file, "--to ctranslate2"))
    config["add_source_eos"] = False
    if tokens.decoder_start[0] != END:  # which Marian's has replaced already
        config["decoder_start_token"] = tokens.decoder_start[0]
    write_json(file, config)
    tokens.write(folder)


def write_fairseq(checkpoint: str, data: str, folder: Path, without_tokens: bool = False) -> dict:
    """Write model.pt and the dictionaries, and return the options in model.pt.

    Args:
        without_tokens: take a bilingual model, too; what is written lacks its language tokens.
    """
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    args = state["cfg"]["model"]
    check_translation_model(state, checkpoint, "CHECKPOINT")
    if not without_tokens:
        check_plain_form(args, checkpoint)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    plain, plain_args = plain_model(model, args, task)
    exported = plain_state(state, plain, plain_args, task)
    save_state(exported, folder / MODEL)
    for language, dictionary in dictionaries(task).items():
        dictionary.save(str(folder / f"dict.{language}.txt"))
    return exported["cfg"]


def plain_state(state: dict, plain: FairseqModel, args: Namespace, task: TranslationTask) -> dict:
    """The loaded checkpoint with another model in it, as stock fairseq reads it."""
    cfg = OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True)
    trained = cfg["task"]
    trained = vars(trained) if isinstance(trained, Namespace) else trained
    options = {name: value for name, value in trained.items() if name in TASK_OPTIONS}
    languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
    cfg["task"] = {**options, **languages, "_name": "translation", "data": "."}
    cfg["model"] = args
    cfg["criterion"] = {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1}
    cfg.setdefault("common", {})["user_dir"] = None
    return new_state(cfg, plain.state_dict(), state["optimizer_history"], state["extra_state"])


def dictionaries(task: TranslationTask) -> dict:
    """The dictionaries of a task by language."""
    return {
        task.cfg.source_lang: task.source_dictionary,
        task.cfg.target_lang: task.target_dictionary,
    }


def write_ctranslate2(plain: Path, cfg: dict, out: Path, quantization: str) -> None:
    """Convert an exported fairseq folder for CTranslate2.

    Args:
        plain: the folder; cfg: the options in its model.pt; out: the folder to write.
    Raises:
        UserError: CTranslate2 is not installed, or cannot represent this model.
    """
    try:
        from ctranslate2.converters import FairseqConverter
    except ModuleNotFoundError as error:
        raise UserError(MISSING) from error
    check_for_ctranslate2(cfg["model"])
    languages = (cfg["task"]["source_lang"], cfg["task"]["target_lang"])
    try:
        FairseqConverter(str(plain / MODEL), str(plain), *languages).convert(
            str(out), quantization=quantization
        )
    except ValueError as error:  # the converter refuses the model
        raise UserError(f"--to ctranslate2: {error}".replace("\n", " ")) from error


def has_ctranslate2() -> bool:
    """Whether CTranslate2 is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


def convert_ctranslate2_form(checkpoint: str, data: str, out: Path, quantization: str) -> None:
    """Write a model that has a form of its own in CTranslate2.

    Raises:
        UserError: CTranslate2 is not installed, or the model has options that it cannot represent.
    """
    if not has_ctranslate2():
        raise UserError(MISSING)
    options = load_options(checkpoint, "CHECKPOINT")["model"]
    check_for_ctranslate2(options)
    model, task = load_transformer(checkpoint, "CHECKPOINT", data)
    write_ctranslate2_form(model, options, task, out, quantization)


def check_for_ctranslate2(args: Namespace) -> None:
    """Raise UserError for a model that CTranslate2's converter would change or crash on."""
    for option in ("attention_heads", "normalize_before"):
        encoder, decoder = (getattr(args, f"{stack}_{option}") for stack in ("encoder", "decoder"))
        if encoder != decoder:
            option = option.replace("_", "-")
            raise UserError(
                f"--to ctranslate2: it needs the same --*-{option} in both stacks, not {encoder} "
                f"and {decoder}; use --to fairseq"
            )
    for option in ("decoder_input_dim", "decoder_output_dim"):
        if getattr(args, option, None) not in (None, args.decoder_embed_dim):
            raise UserError(
                f"--to ctranslate2: no room for --{option.replace('_', '-')} "
                f"{getattr(args, option)} beside --decoder-embed-dim {args.decoder_embed_dim}; use "
                "--to fairseq"
            )
    for option in NO_ROOM:
        if getattr(args, option, None):
            _refuse(f"--{option.replace('_', '-')}")
    if args.decoder_normalize_before and getattr(args, "no_decoder_final_norm", False):
        _refuse("--no-decoder-final-norm")
    activation = getattr(args, "activation_fn", "relu")
    if activation not in ACTIVATIONS:
        _refuse(f"--activation-fn {activation}")


def _refuse(option: str) -> NoReturn:
    raise UserError(f"--to ctranslate2: its models have no room for {option}; use --to fairseq")
