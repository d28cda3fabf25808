"""What `pet-fairseq compress` compares, and where the files in its folder lie."""

from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.runner.fairseq_commands import BEST

MODELS = ("teacher", "student")
TRIMMED = "trimmed"  # the folder for a teacher with fewer pieces
PRECISION = "int8"  # of exports to CTranslate2, whose size `int8_bytes` predicts


@dataclass(frozen=True)
class Layout:
    """The paths in its folder: the student is exported into it, the teacher into a sub-folder.

    Attributes:
        text: raw text in pieces. test: the test set as text.
        translations: source, reference and both translations of the test set, a sentence a line.
        speed: CTranslate2's translations, and their speeds. forms: those of the forms of --to.
    """

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
    def text(self) -> Path:
        return self.out / "text"

    @property
    def test(self) -> Path:
        return self.out / "test"

    @property
    def speed(self) -> Path:
        return self.out / "speed"

    @property
    def translations(self) -> Path:
        return self.out / "translations"

    @property
    def forms(self) -> Path:
        return self.out / "forms"

    @property
    def report(self) -> Path:
        return self.out / "report.md"

    def exported(self, model: str, engine: str) -> Path:
        folder = self.out / "teacher" if model == "teacher" else self.out
        return folder / engine

    def generated(self, model: str, repeat: int) -> Path:
        return self.out / "generate" / f"{model}.{repeat}.txt"
