"""COMET, a trained model that scores translations by their sources and references."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Optional

from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines
from pet_fairseq.results.fairseq_output import read_translations

BATCH = 8  # sentences, as COMET's own commands have it

Comet = Callable[[Sequence[str], Sequence[str], Sequence[str]], list[float]]


def check_comet(model: str) -> None:
    """Check what can be checked before COMET is loaded.

    Args:
        model: the name of one of COMET's models, a checkpoint, or a folder that has one.
    Raises:
        UserError: the package is missing, or a folder has no checkpoint.
    """
    if importlib.util.find_spec("comet") is None:
        raise UserError(f"--comet {model}: COMET is missing; pip install 'pet-fairseq[comet]'")
    find_comet_model(model)


def find_comet_model(model: str) -> str:
    """The checkpoint that a path names, or the name of a model as it is.

    Raises:
        UserError: a folder without one.
    """
    if not Path(model).is_dir():
        return model
    found = sorted(Path(model).glob("**/*.ckpt"))
    if not found:
        raise UserError(
            f"--comet {model}: has no checkpoint; give a folder as COMET's models have it, with "
            "checkpoints/model.ckpt and hparams.yaml"
        )
    return str(found[0])


def comet_scores(
    model: str, source: Optional[Path], output: Path, reference: Path, gpus: int = 0
) -> dict:
    """The score of translations: comet, and comet_model.

    Args:
        source, reference: raw text of the test set. output: as in `read_translations`.
    Raises:
        UserError: as `load_comet`, or unusable files, or files of different test sets.
    """
    if source is None:
        raise UserError(f"--comet {model}: reads the source, too; give it with --source FILE")
    sources, references = read_lines(source, "--source"), read_lines(reference, "REFERENCE")
    if len(sources) != len(references):
        raise UserError(
            f"--source {source}: {len(sources)} sentences, but {reference} has {len(references)}; "
            "give the source of this test set"
        )
    scores = load_comet(model, gpus)(sources, read_translations(output), references)
    return {"comet": fmean(scores), "comet_model": model}


def load_comet(model: str, gpus: int = 0) -> Comet:
    """Load a model; returns a function from sources, translations and references to scores.

    The scores are those of the sentences, times 100; the score of a text is their mean.

    Args:
        model: as in `check_comet`; one that has only a name is downloaded.
        gpus: how many to use.
    Raises:
        UserError: the package or the model is missing.
    """
    check_comet(model)
    from comet import download_model, load_from_checkpoint

    path = find_comet_model(model)
    try:
        path = path if Path(path).is_file() else download_model(path)
        loaded = load_from_checkpoint(path)
    except (OSError, KeyError, ValueError) as error:
        raise UserError(
            f"--comet {model}: cannot be loaded ({error}); give the name of one of COMET's models, "
            "such as Unbabel/wmt22-comet-da, or a folder with one"
        ) from error

    def scores(
        sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
    ) -> list[float]:
        texts = zip(sources, translations, references, strict=True)
        samples = [
            {"src": source, "mt": text, "ref": reference} for source, text, reference in texts
        ]
        found = loaded.predict(samples, batch_size=BATCH, gpus=gpus, progress_bar=False)
        return [100 * score for score in found.scores]

    return scores
