"""The report on hand-made runs: numbers one can check by hand, missing parts, wrong input."""

import json

import pytest
from sacrebleu.metrics import BLEU, CHRF

from pet_fairseq import cli
from pet_fairseq.errors import UserError
from pet_fairseq.results.fairseq_output import read_output
from pet_fairseq.results.report.write import write_report
from tests.results.report.made import (
    REFERENCE,
    WORDS,
    WORSE,
    layer_parameters,
    save_output,
    save_run,
)


def cells(text, start):
    """The table row that starts with this cell, as {column: cell}."""
    lines = text.split("\nTranslations")[0].splitlines()
    table = [[c.strip() for c in line.split("|")] for line in lines if "|" in line]
    (row,) = [row for row in table if row[1] == start]
    return dict(zip(table[0], row))


def test_numpy_types(report):
    text, rows = report()
    student, teacher = rows["student"], rows["teacher"]
    stored, active = layer_parameters(8), layer_parameters(8, layers=2)
    rate = 100 * stored / layer_parameters(32)
    assert student["layer_parameters"] == stored
    assert student["active_parameters"] == active
    assert student["parameters"] == stored + WORDS * 8  # all embeddings are one matrix
    assert student["rate_percent"] == pytest.approx(rate)
    assert teacher["bleu"]["5"] == pytest.approx(100)
    expected = BLEU().corpus_score(WORSE, [REFERENCE]).score
    assert student["bleu"]["5"] == pytest.approx(expected)
    assert student["sentences_per_second"]["5"] == pytest.approx(80)  # median of 40 and 120
    assert student["training_seconds"] == 90
    assert student["checkpoint_bytes"] < 50_000  # the optimizer's 400 kB do not count
    row = cells(text, "Small one")
    assert row["seeds"] == "1" and row["training min"] == "1.5"
    assert row["layer parameters"] == f"{stored:,}" and row["active"] == f"{active:,}"
    assert row["rate %"] == f"{rate:.2f}" and row["BLEU beam 5"] == f"{expected:.2f}"
    assert row["to teacher, beam 5"] == f"{expected - 100:+.2f}"
    finer = CHRF().corpus_score(WORSE, [REFERENCE]).score
    assert row["chrF beam 5"] == f"{finer:.2f}"
    assert student["chrf"]["5"] == pytest.approx(finer)
    assert row["sentences/s beam 5"] == "80.0 (4.0x)"
    assert "nrefs:1|case:mixed" in text and "3 test sentences" in text and "missing" not in text
    assert "median of 2 runs" in text and "several seeds" not in text


def test_bleu_of_tokenised_text_beside_it(runs, report):
    """Of the lines before they were detokenised, at the beam compared; a column only if asked."""
    tokens = ["a small &quot; dog &quot; runs", "two men stand on a long bench .", "he said no"]
    output = runs / "student/generate.beam5.1.txt"
    text = output.read_text(encoding="utf-8")
    for number, (before, after) in enumerate(zip(WORSE, tokens)):
        text = text.replace(f"H-{number}\t-0.5\t{before}\n", f"H-{number}\t-0.5\t{after}\n")
    output.write_text(text, encoding="utf-8")
    before, rows = report()
    assert rows["student"]["tokenised_bleu"] is None and "tokenised" not in before
    after, rows = report(tokenised=True)
    expected = BLEU(tokenize="none").corpus_score(tokens, [REFERENCE]).score
    assert rows["student"]["tokenised_bleu"] == pytest.approx(expected)
    assert expected != pytest.approx(rows["student"]["bleu"]["5"])
    assert rows["teacher"]["tokenised_bleu"] == pytest.approx(100)
    row = cells(after, "Small one")
    assert row["tokenised BLEU, beam 5"] == f"{expected:.2f}" and "H and T lines" in after
    quiet = "".join(line for line in text.splitlines(True) if line[:2] not in ("H-", "T-"))
    output.write_text(quiet, encoding="utf-8")
    assert cells(report(tokenised=True)[0], "Small one")["tokenised BLEU, beam 5"] == "-"
    with pytest.raises(UserError, match="--tokenised-bleu: not beside --score wer"):
        report(tokenised=True, score="wer")


def test_an_ensemble_is_as_large_as_its_members(runs, report):
    """One of them is a link to the teacher's run."""
    ensemble = runs / "ensemble"
    save_run(ensemble, 32, {(5, 1): (WORSE, 5.0), (5, 2): (WORSE, 5.0)})
    (ensemble / "seed2").mkdir()
    for path in ensemble.glob("checkpoint_*.pt"):
        path.rename(ensemble / "seed2" / path.name)
    (ensemble / "seed1").mkdir()
    (ensemble / "seed1/checkpoint_best.pt").symlink_to("../../teacher/checkpoint_best.pt")
    text, rows = report()
    for name in ("layer_parameters", "active_parameters", "parameters", "checkpoint_bytes"):
        assert rows["ensemble"][name] == 2 * rows["teacher"][name]
    assert rows["ensemble"]["training_seconds"] == 2 * 90
    assert rows["ensemble"]["rate_percent"] == 200
    assert rows["ensemble"]["speedup"]["5"] == pytest.approx(5 / 20)
    assert "missing" not in text
    (ensemble / "seed2/checkpoint_best.pt").unlink()
    (ensemble / "seed1/checkpoint_best.pt").unlink()
    assert "missing: ensemble/checkpoint_best.pt" in report()[0]


def test_plots_are_pictures(runs, report):
    for name in ("teacher", "student"):
        for beam in (1, 2):
            save_output(runs / name / f"generate.beam{beam}.1.txt", WORSE, 10.0)
    report()
    plots = ("bleu_over_rate", "speed_over_rate", "sentences_per_second", "bleu_over_beam")
    for name in plots:
        data = (runs / f"{name}.png").read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) > 10_000
    assert not list(runs.glob("*.tmp")) and not list(runs.glob(".*"))
    for path in runs.glob("*/generate.beam2.1.txt"):
        path.unlink()
    report()
    assert not (runs / "bleu_over_beam.png").exists()  # of beams that are gone


def test_main_table_has_beams_1_and_5_another_one_all(runs, report):
    assert "BLEU by beam size" not in report()[0]
    for name in ("teacher", "student"):
        for beam in (1, 2, 10):
            save_output(runs / name / f"generate.beam{beam}.1.txt", WORSE, 10.0)
    text, rows = report()
    main, beams = text.split("BLEU by beam size:")
    header = main.splitlines()[0]
    assert "BLEU beam 1 | BLEU beam 5 | to teacher, beam 10 | chrF beam 10 |" in header
    assert "sentences/s beam 1 | sentences/s beam 5 | training" in header
    assert "| run | beam 1 | beam 2 | beam 5 | beam 10 |" in beams
    worse = f"{rows['student']['bleu']['1']:.2f}"
    assert f"| teacher | {worse} | {worse} | 100.00 | {worse} |" in beams


def test_difference_is_at_the_largest_common_beam(runs, report):
    for name in ("teacher", "student"):
        save_output(runs / name / "generate.beam1.1.txt", REFERENCE, 10.0)
    save_output(runs / "teacher/generate.beam10.1.txt", WORSE, 10.0)
    text, rows = report()
    assert "to teacher, beam 5 |" in text
    assert rows["student"]["beam_compared"] == 5
    for path in (runs / "student").glob("generate.beam5*"):
        path.unlink()
    text, rows = report()
    assert "to teacher, beam 1 |" in text and rows["student"]["bleu_difference"] == 0


def test_missing_parts_are_named(runs, report):
    (runs / "order.txt").write_text("student\nteacher\nother\n")
    (runs / "student/checkpoint_best.pt").unlink()
    text, _ = report()
    assert text.index("Small one") < text.index("| teacher")
    assert "missing: student/checkpoint_best.pt" in text
    assert "missing: run `other`" in text


def test_significance(runs, report):
    text, rows = report(significance=True)
    assert "paired bootstrap, student against teacher, beam 5: p = " in text
    assert "(1000 samples)" in text
    assert 0 < rows["student"]["p_value"] < 0.05  # 36 against 100 BLEU
    assert rows["teacher"]["p_value"] is None


@pytest.mark.slow
def test_baseline(runs, report, capsys):
    """BLEU is compared to the baseline, sizes and speeds still to the teacher."""
    text, rows = report(baseline="student", significance=True)
    gain = 100 - BLEU().corpus_score(WORSE, [REFERENCE]).score
    assert cells(text, "teacher")["to student, beam 5"] == f"{gain:+.2f}"
    assert cells(text, "Small one")["to student, beam 5"] == "+0.00"
    assert cells(text, "Small one")["sentences/s beam 5"] == "80.0 (4.0x)"
    assert "paired bootstrap, teacher against student, beam 5" in text
    assert rows["teacher"]["p_value"] < 0.05 and rows["student"]["p_value"] is None
    command = ["report", str(runs), "--reference", str(runs / "reference.txt")]
    assert cli.main([*command, "--baseline", "student"]) == 0
    assert "to student, beam 5" in capsys.readouterr().out
    assert json.loads((runs / "report.json").read_text())[0]["baseline"] == "student"
    assert cli.main([*command, "--baseline", "boss"]) == 1
    assert "--baseline boss: " in capsys.readouterr().err


def test_errors(runs, report):
    with pytest.raises(UserError, match=r"--reference .*none.txt: no such file"):
        write_report(runs, runs / "none.txt")
    with pytest.raises(UserError, match="none: no such folder"):
        write_report(runs / "none", runs / "reference.txt")
    with pytest.raises(UserError, match="data: holds no run"):
        write_report(runs / "data", runs / "reference.txt")
    with pytest.raises(UserError, match=r"--teacher boss: .* give one of student, teacher"):
        report(teacher="boss")
    with pytest.raises(UserError, match=r"--baseline boss: .* give one of teacher, student"):
        report(baseline="boss")
    other = runs / "student/generate.beam5.1.txt"
    save_output(other, WORSE, 10.0, targets=WORSE)
    with pytest.raises(UserError, match=r"beam5.2.txt: another test set than in .*beam5.1.txt"):
        report()
    save_output(runs / "student/generate.beam5.2.txt", WORSE, 10.0, targets=WORSE)
    with pytest.raises(UserError, match=r"runs .* translated different test sets; generate both"):
        report()
    save_output(runs / "student/generate.beam5.2.txt", WORSE, 10.0)
    save_output(other, WORSE[:2], 10.0)
    with pytest.raises(UserError, match=r"generate.beam5.1.txt: 2 translations.* 3 lines"):
        report()
    save_output(other, WORSE, 10.0)
    other.write_text(other.read_text().replace("Translated", ""))
    with pytest.raises(UserError, match=r"generate.beam5.1.txt: has no speed line"):
        report()
    save_output(other, WORSE, 10.0)
    other.write_text(other.read_text().replace("D-1\t", "X-1\t"))
    with pytest.raises(UserError, match="sentence 1 is missing"):
        report()


@pytest.mark.slow
@pytest.mark.parametrize(
    "missing",
    ["checkpoint_last.pt", "generate.beam5.2.txt", "generate.beam1.1.txt"],
    ids=["training time", "repeat", "beam"],
)
def test_a_file_that_only_the_others_have_is_named(runs, report, missing):
    for name, hypotheses in (("teacher", REFERENCE), ("student", WORSE)):
        save_output(runs / name / "generate.beam1.1.txt", hypotheses, 10.0)
    assert "missing" not in report()[0]
    (runs / "student" / missing).unlink()
    text, rows = report()
    assert f"* missing: student/{missing}" in text and "missing: teacher" not in text
    assert len(rows["student"]["runs"][0]["missing"]) == 1


def test_checkpoints_without_translations(runs, report):
    for path in runs.glob("*/generate*"):
        path.unlink()
    text, rows = report(significance=True)
    assert text.count("missing: ") == 2 and "paired bootstrap: not possible" in text
    expected = 100 * layer_parameters(8) / layer_parameters(32)
    assert rows["student"]["rate_percent"] == pytest.approx(expected)


def test_only_the_best_of_several_hypotheses_counts(runs, report):
    expected = report()[1]["student"]["bleu"]["5"]
    path = runs / "student/generate.beam5.1.txt"
    best = path.read_text(encoding="utf-8")
    path.write_text(best.replace("P-0", "D-0\t-9.0\tanother\nP-0"), encoding="utf-8")
    assert report()[1]["student"]["bleu"]["5"] == expected


def test_every_repeat_is_checked(runs, report):
    other = runs / "student/generate.beam5.2.txt"
    save_output(other, WORSE[:1], 99.0)
    with pytest.raises(UserError, match=r"generate.beam5.2.txt: 1 translations.* 3 lines"):
        report()


def test_lines_are_in_corpus_order_and_may_be_empty(tmp_path):
    hypotheses = [f"line {i}" for i in range(11)] + [""]  # as text, 10 would come before 2
    save_output(tmp_path / "out.txt", hypotheses, 1.0, targets=hypotheses[::-1])
    assert read_output(tmp_path / "out.txt") == (
        *(hypotheses, hypotheses[::-1], 1.0),
        *(["quelle"] * len(hypotheses), hypotheses),
    )


def test_an_empty_last_sentence_counts(runs, report):
    reference = [*REFERENCE[:2], ""]
    (runs / "reference.txt").write_text("\n".join(reference) + "\n", encoding="utf-8")
    for path in runs.glob("*/generate*"):
        save_output(path, reference, 10.0, targets=reference)
    assert "* 3 test sentences" in report()[0]


def test_files_that_are_not_utf8(runs, report):
    output = runs / "student/generate.beam5.1.txt"
    output.write_bytes("D-0\t-1\tß".encode()[:-1])  # cut inside a character
    with pytest.raises(UserError, match=r"output .*generate.beam5.1.txt: not UTF-8 at byte 7"):
        report()
    (runs / "reference.txt").write_bytes("für".encode("latin-1"))
    with pytest.raises(UserError, match=r"--reference .*reference.txt: not UTF-8 at byte 1"):
        report()


def test_titles_and_order(runs, report):
    (runs / "student/name.txt").write_text("a | b\nsecond line\n")
    (runs / "order.txt").write_text("student\nteacher\n\nstudent\nnot there\n")
    text, _ = report()
    table = text.split("\n\n")[0].splitlines()
    assert table[2].startswith(r"| a \| b second line | 1 |") and table[3].startswith("| teacher |")
    assert len(table) == 4
    assert "missing: run `not there`, named in order.txt" in text
