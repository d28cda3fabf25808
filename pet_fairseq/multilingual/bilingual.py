"""A checkpoint of several languages as a folder with a bilingual model, which reads one pair."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.data.multilingual.multilingual_utils import augment_dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.bart import BARTModel
from fairseq.models.transformer import TransformerModelBase
from omegaconf import OmegaConf

from pet_fairseq.checkpoints.contents import new_state, save_state
from pet_fairseq.checkpoints.dictionaries import first_folder, load_dictionary, vocabulary_sizes
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder
from pet_fairseq.multilingual.language_tokens import trained_tokens
from pet_fairseq.nn.architectures import architecture_name, model_class

CHECKPOINT = "checkpoint.pt"
TASKS = ("translation_multi_simple_epoch", "translation_from_pretrained_bart")
# task options of a bilingual model that its multilingual training set
KEPT = ("left_pad_source", "left_pad_target", "max_source_positions", "max_target_positions")


def write_bilingual(
    path: str, source_lang: str, target_lang: str, out: Path, data: Optional[str] = None
) -> None:
    """Write the folder `out`: checkpoint.pt and the dictionaries of one pair of languages.

    Args:
        path: a checkpoint of one of TASKS.
        data: the folder with its dictionaries, None for the one that the checkpoint names.
    Raises:
        UserError: a checkpoint of another task or architecture, a language that it does not know,
            or no dictionary.
    """
    state = load_checkpoint(path, "CHECKPOINT")
    task, model = state["cfg"].task, state["cfg"].model
    check_trained(state, path)
    check_languages(task, path, source_lang, target_lang)
    dictionaries = {
        language: find_dictionary(state, path, language, side, data)
        for language, side in ((source_lang, "source_lang"), (target_lang, "target_lang"))
    }
    cfg = OmegaConf.to_container(state["cfg"], enum_to_str=True)
    tokens = trained_tokens(task, source_lang, target_lang)
    tokens.indices(*dictionaries.values())
    cfg["model"] = Namespace(**{**vars(model), "arch": bilingual_arch(model), **tokens.options()})
    cfg["model"]._name = cfg["model"].arch
    kept = {name: getattr(task, name) for name in KEPT if hasattr(task, name)}
    for name in ("left_pad_source", "left_pad_target"):
        kept[name] = str(kept.get(name, name == "left_pad_source")) == "True"
    cfg["task"] = {"_name": "translation", "data": str(out), **kept}
    cfg["task"] |= {"source_lang": source_lang, "target_lang": target_lang}
    cfg["criterion"] = {"_name": "cross_entropy"}
    with atomic_folder(out) as folder:
        for language, dictionary in dictionaries.items():
            dictionary.save(str(folder / f"dict.{language}.txt"))
        history = state["optimizer_history"][-1:]
        save_state(new_state(cfg, state["model"], history, {}), folder / CHECKPOINT)


def check_trained(state: dict, path: str) -> None:
    """Raise UserError for a checkpoint that cannot be read as a bilingual model."""
    task, model = state["cfg"].task, state["cfg"].model
    if task._name not in TASKS:
        raise UserError(
            f"CHECKPOINT {path}: was trained with --task {task._name}; of the multilingual tasks "
            f"only {' and '.join(TASKS)} are supported"
        )
    if not issubclass(model_class(model), TransformerModelBase):
        raise UserError(
            f"CHECKPOINT {path}: its architecture {architecture_name(model)} is not an "
            "encoder-decoder Transformer; give one such as fairseq's transformer"
        )


def known_languages(task: Namespace) -> list[str]:
    """The languages that a multilingual task names, in the order of their tokens."""
    langs = task.langs
    if langs is None and getattr(task, "lang_dict", None):
        lines = Path(task.lang_dict).read_text(encoding="utf-8").splitlines()
        langs = [line.strip() for line in lines if line.strip()]
    if langs is None:
        pairs = task.lang_pairs
        pairs = pairs.split(",") if isinstance(pairs, str) else pairs
        langs = sorted({language for pair in pairs for language in pair.split("-")})
    return langs.split(",") if isinstance(langs, str) else list(langs)


def check_languages(task: Namespace, path: str, source_lang: str, target_lang: str) -> None:
    """Raise UserError for a language that the model does not know; the message lists the known."""
    known = known_languages(task)
    for option, language in (("--source-lang", source_lang), ("--target-lang", target_lang)):
        if language not in known:
            raise UserError(
                f"{option} {language}: {path} does not know it; its languages are "
                f"{', '.join(known)}"
            )


def find_dictionary(
    state: dict, path: str, language: str, side: str, data: Optional[str]
) -> Dictionary:
    """The dictionary of a side with the language tokens that the task appended to it.

    Raises:
        UserError: it is not found, or does not fit the model.
    """
    task = state["cfg"].task
    folders = [
        Path(folder) for folder in (data, first_folder(task.data), Path(path).parent) if folder
    ]
    fixed = getattr(task, f"{side.split('_')[0]}_dict", None) or getattr(
        task, "fixed_dictionary", None
    )
    files = [Path(fixed)] if fixed else []
    files += [folder / f"dict.{language}.txt" for folder in folders]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise UserError(
            f"--data: {files[0]} is not there; give the folder with the model's dictionaries"
        )
    dictionary = load_dictionary(file, "--data")
    append_tokens(dictionary, task)
    size = vocabulary_sizes(state["model"])[side]
    if size is not None and size != len(dictionary):
        raise UserError(
            f"--data {file}: {len(dictionary):,} words with the language tokens, but {path} has "
            f"{size:,}; give the folder with the model's own dictionaries"
        )
    return dictionary


def append_tokens(dictionary: Dictionary, task: Namespace) -> None:
    """Add the words to a dictionary that a task added to it, in its order."""
    languages = known_languages(task)
    if task._name == "translation_from_pretrained_bart":
        augment_dictionary(dictionary, languages, "mbart")
        return
    augment_dictionary(
        dictionary,
        language_list=languages,
        lang_tok_style=getattr(task, "lang_tok_style", "multilingual"),
        langtoks_specs=getattr(task, "langtoks_specs", ["main"]),
        extra_data=getattr(task, "extra_data", None),
    )


def bilingual_arch(model: Any) -> str:
    """The architecture that reads the language tokens for a model of these options."""
    is_bart = issubclass(ARCH_MODEL_REGISTRY[architecture_name(model)], BARTModel)
    return "bilingual_bart" if is_bart else "bilingual_transformer"
