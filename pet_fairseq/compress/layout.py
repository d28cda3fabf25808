"""Where the files lie in the folder that `pet-fairseq compress` makes."""

from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.runner.training import BEST

MODELS = ("teacher", "student")


@dataclass(frozen=True)
class Layout:
    """The paths in that folder: the student is exported into it, the teacher into a sub-folder."""

    out: Path

    @property
    def timing(self) -> Path:
        return self.out / "timing.log"

    @property
    def warmup(self) -> Path:
        return self.out / "warmup" / BEST

    @property
    def student(self) -> Path:
        return self.out / "training" / BEST

    @property
    def test(self) -> Path:
        """The test set as text."""
        return self.out / "test"

    @property
    def speed(self) -> Path:
        """CTranslate2's translations, and their speeds."""
        return self.out / "speed"

    @property
    def report(self) -> Path:
        return self.out / "report.md"

    def exported(self, model: str, engine: str) -> Path:
        folder = self.out / "teacher" if model == "teacher" else self.out
        return folder / engine

    def generated(self, model: str, repeat: int) -> Path:
        return self.out / "generate" / f"{model}.{repeat}.txt"
