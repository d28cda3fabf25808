"""`pet_fairseq.from_pretrained`: translate text from Python, with any model of this package."""

import os
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils, tasks
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks import TASK_REGISTRY, FairseqTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, open_dict

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.decoding.task import PetTranslationConfig, PetTranslationTask
from pet_fairseq.errors import UserError
from pet_fairseq.loading import load_task

BPE_CODES = ("bpe.codes", "codes", "code", "bpecodes")
SENTENCEPIECE = ("spm.model", "sentencepiece.bpe.model", "source.spm")
TOKENIZERS = ("tokenizer.json",)  # of an imported model
LANGUAGES = ("source_lang", "target_lang")
TRANSLATION = (TranslationTask, PetTranslationTask)


def from_pretrained(
    path: str,
    data: str,
    segmentation: Optional[str] = None,
    tokenizer: Optional[str] = None,
    **options: Any,
) -> GeneratorHubInterface:
    """A translator with `translate(sentences, beam=5)`, fairseq's hub interface.

    Args:
        path: a checkpoint, or an ensemble `a.pt:b.pt`.
        data: the folder with its dictionaries.
        segmentation: a file of BPE codes (subword-nmt), a SentencePiece model (`*.model`, `*.spm`)
            or a tokenizer.json, "" for none; by default the first of bpe.codes, spm.model,
            source.spm and tokenizer.json that is in the data folder, above it, or beside the
            checkpoint.
        tokenizer: fairseq's name of one, "space" for none; by default "moses" with BPE codes.
        options: other values for options of the model or of generation, such as
            `compression_ratio=8` or `lenpen=0.6`.
    Raises:
        UserError: a file that is missing or unreadable, a model that generates no text, an option
            that neither has.
    """
    if not Path(data).is_dir():
        raise UserError(f"data {data}: no such folder; give one made by fairseq-preprocess")
    models, cfg, task = [], None, None
    for file in path.split(os.pathsep):
        state = load_checkpoint(file, "path")
        state["args"] = None  # fairseq has made cfg of it
        if cfg is None:
            cfg = state["cfg"]
            task = _build_task(cfg, data, file)
        _override(state["cfg"], options)
        loaded, _ = checkpoint_utils.load_model_ensemble([file], task=task, state=state)
        models += loaded
    if segmentation is None:
        segmentation = _find_segmentation(path, data)
    _set_text_options(cfg, task, segmentation, tokenizer)
    return GeneratorHubInterface(cfg, task, models)


def _build_task(cfg: DictConfig, data: str, path: str) -> FairseqTask:
    """The checkpoint's task on a data folder; translation gets fast decoding.

    Other tasks that generate text from text say so by the class attribute `generates_text = True`.

    Raises:
        UserError: a task that generates no text, or no data for it.
    """
    kind = TASK_REGISTRY.get(cfg.task._name, object)
    if kind in TRANSLATION:
        return _translation_task(cfg.task, data)
    if getattr(kind, "generates_text", False):
        with open_dict(cfg):
            cfg.task.data = data
        return tasks.setup_task(cfg.task, from_checkpoint=True)
    usable = [
        name
        for name, task in TASK_REGISTRY.items()
        if task in TRANSLATION or getattr(task, "generates_text", False)
    ]
    raise UserError(
        f"path {path}: trained with --task {cfg.task._name}, which generates no text from text; "
        f"give a model of --task {', '.join(usable[:-1])} or {usable[-1]}"
    )


def _translation_task(trained: DictConfig, data: str) -> PetTranslationTask:
    """A trained translation task on a data folder, with fast decoding."""
    plain = load_task(trained, data)
    fields = PetTranslationConfig.__dataclass_fields__
    options = {name: value for name, value in trained.items() if name in fields}
    options |= {name: getattr(plain.cfg, name) for name in ("data", *LANGUAGES)}
    config = PetTranslationConfig(**{**options, "eval_bleu": False})
    return PetTranslationTask(config, plain.source_dictionary, plain.target_dictionary)


def _override(cfg: DictConfig, options: dict) -> None:
    for name, value in options.items():
        holders = [part for part in (cfg.model, cfg.generation) if hasattr(part, name)]
        if not holders:
            raise UserError(f"{name}: neither this model nor generation has such an option")
        for part in holders:
            if isinstance(part, DictConfig):
                with open_dict(part):
                    part[name] = value
            else:
                setattr(part, name, value)


def _find_segmentation(path: str, data: str) -> str:
    """The file by which the data was segmented, "" if there is none where it is looked for."""
    folders = (Path(data), Path(data).resolve().parent, Path(path.split(os.pathsep)[0]).parent)
    files = [
        folder / name for folder in folders for name in (*BPE_CODES, *SENTENCEPIECE, *TOKENIZERS)
    ]
    return next((str(file) for file in files if file.is_file()), "")


def _set_text_options(
    cfg: DictConfig, task: FairseqTask, segmentation: str, tokenizer: Optional[str]
) -> None:
    """How text becomes tokens and back."""
    bpe = None
    if segmentation:
        if not Path(segmentation).is_file():
            raise UserError(f"segmentation {segmentation}: no such file")
        bpe = {"_name": "subword_nmt", "bpe_codes": segmentation, "bpe_separator": "@@"}
        if segmentation.endswith((".model", ".spm")):
            bpe = {"_name": "sentencepiece", "sentencepiece_model": segmentation}
        elif segmentation.endswith(".json"):
            bpe = {"_name": "tokenizer_json", "tokenizer_file": segmentation}
        elif tokenizer is None:
            tokenizer = "moses"
    with open_dict(cfg):
        cfg.bpe = bpe
        cfg.tokenizer = None
        if tokenizer is not None:
            languages = {side: getattr(task.cfg, side, None) for side in LANGUAGES}
            cfg.tokenizer = {"_name": tokenizer, **(languages if tokenizer == "moses" else {})}
