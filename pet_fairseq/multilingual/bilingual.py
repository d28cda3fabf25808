"""A checkpoint of several languages as a folder with a bilingual model, which reads one pair."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.data.multilingual.multilingual_utils import augment_dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.bart import BARTModel
from fairseq.models.transformer import TransformerModelBase
from omegaconf import DictConfig, OmegaConf

from pet_fairseq.checkpoints.dictionaries import first_folder, load_dictionary, vocabulary_sizes
from pet_fairseq.checkpoints.model_files import CHECKPOINT
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.checkpoints.text_files import around_data, copy_subword_files
from pet_fairseq.checkpoints.translation_checks import check_multilingual_task
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, check_new_folder, read_lines
from pet_fairseq.multilingual.language_tokens import LanguageTokens, check_language, trained_tokens
from pet_fairseq.nn.architectures import architecture_name, model_class

# task options of a bilingual model that its multilingual training set
KEPT = ("left_pad_source", "left_pad_target", "max_source_positions", "max_target_positions")


def write_bilingual(
    path: str, source_lang: str, target_lang: str, out: Path, data: Optional[str] = None
) -> str:
    """Write the folder `out` for one pair of languages; returns a line for the terminal.

    It holds checkpoint.pt, the dictionaries with the language tokens, the subword model,
    if it is found beside the checkpoint or the dictionaries, and links to the binary data of the
    pair: the tokens stand at the dictionaries' end, so that its numbers stay right.

    Args:
        path: a checkpoint of one of MULTILINGUAL_TASKS.
        data: the folder with its dictionaries, None for the one that the checkpoint names.
    Raises:
        UserError: a checkpoint of another task or architecture, a language that it does not know,
            no dictionary, or `out` exists already.
    """
    check_new_folder(out, "--out")
    state = load_checkpoint(path, "CHECKPOINT")
    check_trained(state["cfg"], path)
    check_languages(state["cfg"].task, path, source_lang, target_lang)
    files = {
        language: find_dictionary(state, path, language, side, data)
        for language, side in ((source_lang, "source"), (target_lang, "target"))
    }
    dictionaries = {
        language: full_dictionary(state, path, file, side)
        for (language, file), side in zip(files.items(), ("source_lang", "target_lang"))
    }
    tokens = trained_tokens(state["cfg"].task, source_lang, target_lang)
    bilingual = bilingual_state(state, source_lang, target_lang, tokens, out)
    with atomic_folder(out) as folder:
        for language, dictionary in dictionaries.items():
            dictionary.save(str(folder / f"dict.{language}.txt"))
        given = files[source_lang].parent
        linked = link_data(given, source_lang, target_lang, folder)
        folders = [*around_data(given), Path(path).parent]
        copy_subword_files(dictionaries[source_lang], folders, folder)
        save_state(bilingual, folder / CHECKPOINT)
    words = " and ".join(sorted({f"{len(d):,}" for d in dictionaries.values()}))
    held = f", data: {', '.join(linked)}" if linked else ""
    return f"wrote {out}: {bilingual['cfg']['model'].arch}, {words} words{held}"


def bilingual_state(
    state: dict, source_lang: str, target_lang: str, tokens: LanguageTokens, data: Path
) -> dict:
    """The checkpoint of the bilingual model; it shares the tensors of the multilingual one."""
    task, model = state["cfg"].task, state["cfg"].model
    cfg = OmegaConf.to_container(state["cfg"], enum_to_str=True)
    arch = bilingual_arch(model)
    cfg["model"] = Namespace(**{**vars(model), **tokens.options(), "arch": arch, "_name": arch})
    kept = {name: getattr(task, name) for name in KEPT if hasattr(task, name)}
    for name in ("left_pad_source", "left_pad_target"):  # these tasks have them as text
        kept[name] = str(kept[name]) == "True"
    languages = {"source_lang": source_lang, "target_lang": target_lang}
    cfg["task"] = {"_name": "translation", "data": str(data), **languages, **kept}
    cfg["criterion"] = {"_name": "cross_entropy"}
    return new_state(cfg, state["model"], state["optimizer_history"][-1:], {})


def link_data(data: Path, source_lang: str, target_lang: str, folder: Path) -> list[str]:
    """Link the binary data of a pair, whose names hold the pair in either order; returns the sets.

    Raises:
        UserError: the data's files cannot be linked.
    """
    sets = set()
    for first, second in ((source_lang, target_lang), (target_lang, source_lang)):
        for file in sorted(data.glob(f"*.{first}-{second}.*")):
            if file.suffix in (".bin", ".idx"):
                (folder / file.name).symlink_to(file.resolve())
                sets.add(file.name.split(".")[0])
    return sorted(sets)


def check_trained(cfg: DictConfig, path: str, option: str = "CHECKPOINT") -> None:
    """Raise UserError if a checkpoint of these options cannot be read as a bilingual model.

    Args:
        option: names the path in errors.
    """
    model = cfg.model
    check_multilingual_task(cfg.task, path, option)
    if not issubclass(model_class(model), TransformerModelBase):
        raise UserError(
            f"{option} {path}: its architecture {architecture_name(model)} is not an "
            "encoder-decoder Transformer; give one such as fairseq's transformer"
        )


def known_languages(task: Namespace, path: str) -> list[str]:
    """The languages that a multilingual task names, in the order of their tokens.

    Args:
        path: of the checkpoint, beside which the list of them may lie.
    Raises:
        UserError: the list that the task names is not there.
    """
    langs = task.langs
    if langs is None and getattr(task, "lang_dict", None):
        listed = Path(task.lang_dict)
        places = (listed, Path(path).with_name(listed.name))
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise UserError(
                f"{listed}: no such file, which lists the languages of {path}; put it beside the "
                "checkpoint"
            )
        lines = read_lines(file, "--lang-dict")
        langs = [line.strip() for line in lines if line.strip()]
    if langs is None:
        pairs = task.lang_pairs
        pairs = pairs.split(",") if isinstance(pairs, str) else pairs
        langs = sorted({language for pair in pairs for language in pair.split("-")})
    return langs.split(",") if isinstance(langs, str) else list(langs)


def check_languages(task: Namespace, path: str, source_lang: str, target_lang: str) -> None:
    """Raise UserError for a language that the model does not know; the message lists the known."""
    known = known_languages(task, path)
    check_language("--source-lang", source_lang, known, path)
    check_language("--target-lang", target_lang, known, path)
    if source_lang == target_lang:
        raise UserError(
            f"--target-lang {target_lang}: is the --source-lang too; give two languages"
        )


def find_dictionary(state: dict, path: str, language: str, side: str, data: Optional[str]) -> Path:
    """The file of the dictionary of a side, source or target.

    Raises:
        UserError: it is not found.
    """
    task = state["cfg"].task
    given = getattr(task, f"{side}_dict", None) or getattr(task, "fixed_dictionary", None)
    folders = [data, first_folder(task.data), str(Path(path).parent)]
    files = [Path(folder, f"dict.{language}.txt") for folder in folders if folder]
    files = [*([Path(given)] if given and not data else []), *files]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise UserError(
            f"--data: {files[0]} is not there; give the folder with the model's dictionaries"
        )
    return file


def full_dictionary(state: dict, path: str, file: Path, side: str) -> Dictionary:
    """A dictionary with the language tokens that the task appended to it.

    Args:
        side: source_lang or target_lang.
    Raises:
        UserError: it does not fit the model.
    """
    dictionary = load_dictionary(file, "--data")
    append_tokens(dictionary, state["cfg"].task, path)
    size = vocabulary_sizes(state["model"])[side]
    if size not in (None, len(dictionary)):
        raise UserError(
            f"--data {file}: {len(dictionary):,} words with the language tokens, but {path} has "
            f"{size:,}; give the folder with the model's own dictionaries"
        )
    return dictionary


def append_tokens(dictionary: Dictionary, task: Namespace, path: str) -> None:
    """Add the words to a dictionary that a task added to it, in its order; path: its checkpoint."""
    languages = known_languages(task, path)
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
