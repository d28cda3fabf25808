"""What `pet-fairseq compress` compares, and where the files in its folder lie."""

from pathlib import Path

from pet_fairseq.runner.fairseq_commands import BEST

MODELS = ("teacher", "student")
TRIMMED = "trimmed"  # the folder for a teacher with fewer pieces
PRECISION = "int8"  # of exports to CTranslate2, whose size `int8_bytes` predicts


class Layout:
    """The paths in the folder of --out."""

    def __init__(self, out: Path):
        # of the teacher that is given
        self.imported = out / "imported"  # from Hugging Face's files
        self.bilingual = out / "bilingual"  # one pair of its languages
        self.trimmed = out / TRIMMED

        # of the text that is given
        self.corpus_teacher = out / "corpus_teacher"  # in CTranslate2, to translate --text
        self.shards = out / "corpus"  # of its translations
        self.corpus_text = out / "corpus_text"  # these as raw text
        self.pieces = out / "pieces"  # the training text in all of the teacher's pieces
        self.vocabulary = out / "vocabulary"  # of a student's own
        self.text = out / "text"  # all sets in pieces, and binary
        self.data = out / "bin"
        self.test_text = out / "test_text"  # a test set beside binary data in pieces, and binary
        self.test_data = out / "test_bin"

        # of the training
        self.timing, self.timing_log = out / "timing", out / "timing.log"
        self.warmup = out / "warmup" / BEST
        self.student = out / "training" / BEST

        # of the comparison; the student is exported into `out` itself
        self._exports = {"teacher": out / "teacher", "student": out}
        self._generated = out / "generate"
        self.test = out / "test"  # the test set as text
        self.teacher_scores = self._generated / "teacher.scores.txt"  # a line
        self.speed = out / "speed"  # CTranslate2's translations and their speeds
        self.forms = out / "forms"  # those of the forms of --to
        self.translations = out / "translations"  # what is scored, a sentence a line
        self.report = out / "report.md"
        self.report_json = out / "report.json"
        self.report_plot = out / "report.png"

    def exported(self, model: str, engine: str) -> Path:
        return self._exports[model] / engine

    def generated(self, model: str, repeat: int) -> Path:
        return self._generated / f"{model}.{repeat}.txt"
