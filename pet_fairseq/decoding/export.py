"""`pet-fairseq export`: a translation model for engines that do not know this package."""

from pathlib import Path
from typing import Optional

from pet_fairseq.checkpoints.loading import load_task
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import (
    around_data,
    copy_subword_files,
    folders_around,
    write_languages,
)
from pet_fairseq.decoding.export_ctranslate2 import QUANTIZATIONS, SHORT, write_ctranslate2
from pet_fairseq.decoding.export_fairseq import write_fairseq
from pet_fairseq.errors import UserError, check_positive
from pet_fairseq.files import atomic_folder


def export(
    checkpoint: str,
    data: str,
    to: str,
    out: Path,
    precision: Optional[str] = None,
    shortlist: Optional[int] = None,
) -> None:
    """Write a folder with the model's plain form and its dictionaries.

    Args:
        checkpoint: a Transformer or PET model; data: fairseq-preprocess's folder; to: "fairseq"
        for OUT/model.pt, "ctranslate2" for a folder that its Translator opens; precision: one of
        QUANTIZATIONS or SHORT, for ctranslate2 only; None stands for float32; shortlist: for
        ctranslate2 only, how many target pieces each source piece allows, None for all.
    Raises:
        UserError: names the option or file and the reason.
    """
    if precision is not None and to != "ctranslate2":
        raise UserError("--precision: only for --to ctranslate2; leave it out")
    if shortlist is not None:
        check_positive(shortlist=shortlist)
        if to != "ctranslate2":
            raise UserError("--shortlist: only for --to ctranslate2; leave it out")
    quantization = SHORT.get(precision or "auto", precision)
    if quantization not in QUANTIZATIONS:
        names = ", ".join([*SHORT, *QUANTIZATIONS[3:]])
        raise UserError(f"--precision {precision}: give one of {names}")
    if out.exists():
        raise UserError(f"--out {out}: exists; give the name of a new folder")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: {out.parent} is not a folder; create it first")
    with atomic_folder(out) as folder:
        if to == "fairseq":
            write_fairseq(checkpoint, data, folder)
        else:
            write_ctranslate2(checkpoint, data, folder, quantization, shortlist)
        add_text_files(checkpoint, data, folder, with_languages=to != "fairseq")


def add_text_files(checkpoint: str, data: str, folder: Path, with_languages: bool) -> None:
    """Write what tells a model's text: the files that divide words, if any are found.

    Args:
        checkpoint, data: as for `export`.
        with_languages: whether the languages are written down, too, where the engine knows none.
    """
    cfg = load_options(checkpoint, "CHECKPOINT")
    copy_subword_files([*around_data(Path(data)), *folders_around(checkpoint, cfg)], folder)
    if with_languages:
        task = load_task(cfg.task, data)
        write_languages(folder, task.cfg.source_lang, task.cfg.target_lang)
