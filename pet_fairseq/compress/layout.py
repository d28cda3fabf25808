"""Where things lie in the folder that `pet-fairseq compress` makes."""

from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.recipes.training import BEST

MODELS = ("teacher", "student")


@dataclass(frozen=True)
class Layout:
    """The student is exported into the folder itself, the teacher into a folder of its own."""

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
        """What CTranslate2 translated, and how fast."""
        return self.out / "speed"

    @property
    def report(self) -> Path:
        return self.out / "report.md"

    def exported(self, model: str, engine: str) -> Path:
        folder = self.out / "teacher" if model == "teacher" else self.out
        return folder / engine

    def generated(self, model: str, repeat: int) -> Path:
        return self.out / "generate" / f"{model}.{repeat}.txt"
