"""The report's words and figures, from measurements made by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu

from pet_fairseq.compress.measure import (
    CTRANSLATE2,
    FAIRSEQ,
    InEngine,
    Measured,
    Measurements,
    Scores,
    Timing,
    describe_teacher,
)
from pet_fairseq.compress.report import (
    first_line,
    to_json,
    to_markdown,
    write_plot,
    write_translations,
)
from pet_fairseq.results.report.checkpoint import Sizes
from pet_fairseq.statistics import Difference


def model(layers, parameters, int8, float32, bleu, speed, word):
    texts = [f"{word} {i} | x" for i in range(20)]
    engines = {
        FAIRSEQ: InEngine(float32, Scores(bleu + 0.14, bleu + 20), texts),
        CTRANSLATE2: InEngine(int8, Scores(bleu, bleu + 20.1), texts, speed),
    }
    return Measured(Sizes(layers, layers, parameters, float32 + 1000), engines)


@pytest.fixture
def measured():
    return Measurements(
        model(3_000_000, 4_400_000, 5_210_000, 17_840_000, 39.36, 423.4, "ein"),
        model(299_000, 905_000, 1_302_000, 3_700_000, 38.63, 1049.6, "zwei"),
        engine=CTRANSLATE2,
        timings={CTRANSLATE2: Timing("2 CPU cores", 3)},
        beam=5,
        sources=[f"source {i}" for i in range(20)],
        references=[f"reference {i}" for i in range(20)],
        signature="sacre",
        unknown_words=7,
        training_minutes=12.34,
        differences={
            "BLEU": Difference(-0.73, -1.2, -0.114, 0.004),
            "chrF": Difference(-0.73, -1.5, 0.3, 0.2),
        },
    )


def test_first_line(measured):
    assert first_line(measured) == (
        "5.2 MB -> 1.3 MB (4.0 times smaller), BLEU 39.4 -> 38.6 (-0.8), 423 -> 1,050 sentences/s "
        "(2.5 times) in CTranslate2 int8 on 2 CPU cores."
    )


def test_markdown(measured):
    text = to_markdown(measured, Path("t.pt"), "the data", None)
    assert text.splitlines()[0] == first_line(measured)
    assert text.splitlines()[2].startswith(
        "Student minus teacher: BLEU -0.73 [-1.20, -0.11], chrF -0.73 [-1.50, +0.30]. In brackets: "
    )
    assert "has 10.0% of the teacher's layer parameters" in text
    assert "| BLEU in fairseq | 39.50 | 38.77 |" in text
    assert "| chrF in CTranslate2 int8 | 59.46 | 58.73 |" in text and "COMET" not in text
    assert "| MB in CTranslate2 int8 | 5.21 | 1.30 |" in text
    assert "7 words of that reference are lost" in text
    assert "training took 12.3 minutes" in text and "reference: the data" in text
    samples = [line for line in text.splitlines() if line.startswith("| source ")]
    assert len(samples) == 11  # with the header
    assert samples[1] == "| source 1 | reference 1 | ein 1 \\| x | zwei 1 \\| x |"
    assert "Measured in fairseq" not in text


def test_without_ctranslate2(measured):
    models = [
        replace(m, engines={FAIRSEQ: replace(m.engines[FAIRSEQ], sentences_per_second=speed)})
        for m, speed in zip((measured.teacher, measured.student), (100, 150))
    ]
    measured = replace(measured, teacher=models[0], student=models[1], engine=FAIRSEQ)
    measured = replace(measured, timings={FAIRSEQ: Timing("2 CPU cores", 3)})
    text = to_markdown(measured, Path("t.pt"), "the data", "CTranslate2 is missing")
    assert text.splitlines()[0].endswith(
        "100 -> 150 sentences/s (1.5 times) in fairseq on 2 CPU cores."
    )
    assert "Measured in fairseq: CTranslate2 is missing." in text
    assert "ctranslate2/" not in text
    assert "`teacher/`" in text
    unexported = replace(measured, teacher_is_exported=False)
    assert "`teacher/`" not in to_markdown(unexported, Path("t.pt"), "the data", "no plain form")


def test_a_student_that_is_alone_in_ctranslate2(measured, tmp_path):
    """Its speed there is in the table, and in no ratio."""
    teacher, student = measured.teacher.engines, measured.student.engines
    measured = replace(
        measured,
        teacher=replace(
            measured.teacher,
            engines={FAIRSEQ: replace(teacher[FAIRSEQ], sentences_per_second=41.26)},
        ),
        student=replace(
            measured.student,
            engines={**student, FAIRSEQ: replace(student[FAIRSEQ], sentences_per_second=99.8)},
        ),
        engine=FAIRSEQ,
        timings={FAIRSEQ: Timing("a GPU", 3), CTRANSLATE2: Timing("2 CPU cores", 7)},
    )
    text = to_markdown(measured, Path("t.pt"), "the data", "no room for it")
    assert "41.3 -> 99.8 sentences/s (2.4 times) in fairseq on a GPU." in text.splitlines()[0]
    assert "| sentences/s in fairseq | 41.3 | 99.8 |" in text
    assert "| sentences/s in CTranslate2 int8 | - | 1,050 |" in text
    assert "| MB in CTranslate2 int8 | - | 1.30 |" in text
    assert "3 rounds over the whole test set, in fairseq on a GPU" in text
    assert "in CTranslate2 int8 the student alone: median of 7 rounds on 2 CPU cores" in text
    assert "`ctranslate2/`: the same in int8" in text
    assert to_json(measured)["teacher"]["engines"].keys() == {FAIRSEQ}
    write_plot(measured, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_figures_but_no_texts(measured):
    content = to_json(measured)
    assert content["summary"] == first_line(measured)
    assert content["student"]["engines"][CTRANSLATE2] == {
        "bytes": 1_302_000,
        "bleu": 38.63,
        "chrf": pytest.approx(58.73),
        "sentences_per_second": 1049.6,
    }
    assert content["teacher"]["layer_parameters"] == 3_000_000
    bleu = {"mean": -0.73, "low": -1.2, "high": -0.114, "p": 0.004}
    assert content["differences"]["BLEU"] == bleu and "comet" not in content["teacher"]
    assert "ein" not in str(content)


def test_comet(measured):
    """Beside BLEU and chrF, where a model of COMET's is given."""
    measured = replace(measured, comet={"teacher": 83.456, "student": 81.2}, comet_model="wmt22")
    text = to_markdown(measured, Path("t.pt"), "the data", None)
    assert "| COMET x 100 in CTranslate2 int8 | 83.46 | 81.20 |" in text
    assert "* COMET by wmt22, times 100" in text
    content = to_json(measured)
    assert (content["student"]["comet"], content["comet_model"]) == (81.2, "wmt22")


def test_rouge(measured):
    """Beside BLEU and chrF, where it is asked for."""
    kinds = {"rouge1": {"teacher": 41.234, "student": 40.1}, "rougeL": dict(teacher=30, student=31)}
    measured = replace(measured, rouge=kinds)
    text = to_markdown(measured, Path("t.pt"), "the data", None)
    assert "| ROUGE-1 in CTranslate2 int8 | 41.23 | 40.10 |" in text
    assert "| ROUGE-L in CTranslate2 int8 | 30.00 | 31.00 |" in text
    assert "* ROUGE: F-measures of rouge-score in percent" in text
    assert to_json(measured)["student"]["rougeL"] == 31


def test_texts_for_other_tools(measured, tmp_path):
    write_translations(measured, tmp_path / "translations")
    names = ("source", "reference", "teacher", "student")
    texts = [(tmp_path / f"translations/{name}.txt").read_text().splitlines() for name in names]
    assert [text[3] for text in texts] == ["source 3", "reference 3", "ein 3 | x", "zwei 3 | x"]
    assert {len(text) for text in texts} == {20}


def test_plot(measured, tmp_path):
    write_plot(measured, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_teachers_scores_before_the_training(tmp_path):
    """Two of three sentences are right; then all are in another language."""
    references = ["the cat sits on the mat", "a dog runs in the park", "we all like good tea"]
    (tmp_path / "source.txt").write_text("a\nb\nc\n")
    (tmp_path / "reference.txt").write_text("".join(f"{line}\n" for line in references))
    (tmp_path / "about.json").write_text('{"unknown_reference_words": 0}')

    def describe(translations):
        lines = [f"D-{i}\t-0.5\t{text}\n" for i, text in enumerate(translations)]
        lines += [f"H-{i}\t-0.5\t{text}\n" for i, text in enumerate(translations)]
        lines += [f"{kind}-{i}\tx\n" for i in range(3) for kind in "ST"]
        lines.append(
            "INFO | Translated 3 sentences (9 tokens) in 0.1s (30.00 sentences/s, 9 t/s)\n"
        )
        (tmp_path / "out.txt").write_text("".join(lines))
        return describe_teacher(tmp_path / "out.txt", tmp_path)

    good = [*references[:2], "they drink coffee"]
    bleu = sacrebleu.corpus_bleu(good, [references]).score
    chrf = sacrebleu.corpus_chrf(good, [references]).score
    assert describe(good) == f"teacher: BLEU {bleu:.1f}, chrF {chrf:.1f} on 3 sentences"
    found = describe(["die katze sitzt", "ein hund rennt", "wir alle"])
    assert found.startswith("teacher: BLEU 0.0, chrF ")
    assert found.endswith(
        "; that is low: if it should be more, stop here, and check the order of "
        "source and target, the languages and the subword model"
    )
