"""`pet-fairseq export`: a translation model for engines that do not know this package."""

from collections.abc import Callable
from pathlib import Path
from typing import Optional

from omegaconf import DictConfig

from pet_fairseq.checkpoints.backbone import MERGE_FIRST, can_be_merged
from pet_fairseq.checkpoints.dictionaries import first_folder, own_data
from pet_fairseq.checkpoints.loading import check_own_data, load_task
from pet_fairseq.checkpoints.model_files import find_model_files
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import (
    SUBWORD_FILES,
    copy_subword_files,
    find_file,
    folders_around,
    write_languages,
)
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.export.ctranslate2 import write_ctranslate2, write_script
from pet_fairseq.export.fairseq import write_fairseq, write_merged
from pet_fairseq.export.huggingface import write_huggingface
from pet_fairseq.export.marian import write_marian
from pet_fairseq.export.onnx import write_onnx
from pet_fairseq.files import atomic_folder, check_new_folder
from pet_fairseq.nn.architectures import model_class

# options that are not for all forms
ONLY_FOR = {
    "precision": ("ctranslate2", "onnx", "marian"),
    "shortlist": ("ctranslate2",),
    "segmentation": ("huggingface", "onnx", "marian"),
}
# forms that hold the tokenizer as other software wants it
WITH_TOKENIZER: dict[str, Callable[..., Optional[str]]] = {
    "huggingface": write_huggingface,
    "onnx": write_onnx,
    "marian": write_marian,
}


def export(
    checkpoint: str,
    data: Optional[str],
    to: str,
    out: Path,
    backbone_path: Optional[str] = None,
    **options,
) -> Optional[str]:
    """Write a folder with a model, in which no layers share parameters, and what its text needs.

    Args:
        checkpoint: a translation model, one of any task with low-rank updates, or a folder that
        holds one; data: fairseq-preprocess's folder, None for that of the checkpoint, or else the
        one that it names; to: "fairseq" for OUT/model.pt, "ctranslate2" for a folder that its
        Translator opens, "huggingface" for one that transformers opens, "onnx" for graphs of ONNX
        Runtime, "marian" for Marian and Bergamot; backbone_path: of the model with low-rank
        updates, None for the one that the checkpoint names; options: those of ONLY_FOR, None where
        they are not given.
    Returns:
        what the folder lacks for other software, None if nothing.
    Raises:
        UserError: names the option or file and the reason.
    """
    given = {name: value for name, value in options.items() if value is not None}
    check_options(to, given)
    check_new_folder(out, "--out")
    if Path(checkpoint).is_dir():
        (checkpoint,), data = find_model_files(checkpoint, data, "CHECKPOINT")
    cfg = load_options(checkpoint, "CHECKPOINT")
    if not data:
        data = own_data(cfg.task.data, checkpoint)
        check_own_data(data, checkpoint, "CHECKPOINT")
    holds_changes = can_be_merged(model_class(cfg.model))
    if holds_changes and to != "fairseq":
        raise UserError(
            f"--to {to}: CHECKPOINT {checkpoint} holds changes of a model; {MERGE_FIRST}"
        )
    if backbone_path and not holds_changes:
        raise UserError(
            f"--backbone-path {backbone_path}: CHECKPOINT {checkpoint} has no low-rank updates; "
            "leave it out"
        )
    with atomic_folder(out) as folder:
        if holds_changes:
            write_merged(checkpoint, data, folder, backbone_path)
            return None
        if to in WITH_TOKENIZER:
            return WITH_TOKENIZER[to](checkpoint, data, folder, **given)
        if to == "ctranslate2":
            write_ctranslate2(checkpoint, data, folder, **given)
        else:
            write_fairseq(checkpoint, data, folder)
        add_text_files(checkpoint, cfg, data, folder, with_languages=to != "fairseq")
        if to == "ctranslate2":
            write_script(folder, find_file(SUBWORD_FILES, [folder]), cfg.model)
    return None


def check_options(to: str, given: dict) -> None:
    """Raise UserError for an option that is not for this form, or has a wrong value."""
    for name in given:
        forms = ONLY_FOR[name]
        if to not in forms:
            raise UserError(f"--{name}: only for --to {' or '.join(forms)}; leave it out")
    if "shortlist" in given:
        check_positive(shortlist=given["shortlist"])


def add_text_files(
    checkpoint: str, cfg: DictConfig, data: str, folder: Path, with_languages: bool
) -> None:
    """Write what tells a model's text: the subword models, if any are found.

    Args:
        checkpoint, data: as for `export`. cfg: the checkpoint's options.
        with_languages: whether the languages are written down, too, where the engine knows none.
    """
    task = load_task(cfg.task, data)
    folders = folders_around(checkpoint, cfg, Path(first_folder(data)))
    copy_subword_files(task.source_dictionary, folders, folder)
    if with_languages:
        write_languages(folder, task.cfg.source_lang, task.cfg.target_lang)
