"""From what a user names to the files of a model: checkpoints, and folders that hold one."""

import os
from pathlib import Path
from typing import Optional

from pet_fairseq.errors import UserError

# in a folder of import-hf, in one of export --to fairseq, and in one of compress
CHECKPOINT = "checkpoint.pt"
CHECKPOINTS = (CHECKPOINT, "model.pt", "fairseq/model.pt")
# in a folder of fairseq-train, and in one of compress; their data are elsewhere
TRAINED = ("checkpoint_best.pt", "training/checkpoint_best.pt")
# what shows that a folder was exported for an engine
ENGINES = {
    "model.bin": "CTranslate2",
    "onnx/encoder_model.onnx": "ONNX Runtime",
    "onnx/encoder_model_quantized.onnx": "ONNX Runtime",
    "bergamot.yml": "Bergamot",
}


def find_model_files(path: str, data: Optional[str], option: str) -> tuple[list[str], str]:
    """The files that `a.pt[:b.pt...]` names, and the data folder, "" for the model's own.

    A folder that has one of CHECKPOINTS may take the place of the first file; where the file is, is
    the data folder, too.

    Args:
        path, data: as the user gave them. option: names the path in errors.
    Raises:
        UserError: a folder without a checkpoint.
    """
    first, *more = path.split(os.pathsep)
    if not Path(first).is_dir():
        return [first, *more], data or ""
    file = find_checkpoint(Path(first))
    if file is None:
        raise UserError(f"{option} {first}: {why_no_checkpoint(Path(first))}")
    return [str(file), *more], data or str(file.parent)


def find_checkpoint(folder: Path) -> Optional[Path]:
    """The first of CHECKPOINTS that a folder has, None if it has none."""
    return next((folder / name for name in CHECKPOINTS if (folder / name).is_file()), None)


def find_trained(folder: Path) -> Optional[Path]:
    """The best checkpoint of a training that a folder has, None if it has none."""
    return next((folder / name for name in TRAINED if (folder / name).is_file()), None)


def why_no_checkpoint(folder: Path) -> str:
    """What is wrong with a folder that has none of CHECKPOINTS, and what to give."""
    if trained := find_trained(folder):
        return f"is a folder of trained checkpoints; give {trained}"
    engine = next((ENGINES[name] for name in ENGINES if (folder / name).is_file()), None)
    if engine is not None:
        return (
            f"is a model for {engine}, which pet-fairseq translate runs; give the checkpoint that "
            "was exported"
        )
    return (
        "has no checkpoint.pt or model.pt; give a checkpoint, or a folder that pet-fairseq "
        "import-hf, export --to fairseq or compress wrote"
    )
