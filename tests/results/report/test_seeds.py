"""Runs NAME.seed<K> are one row: means, spread, medians; what must be equal; what is missing."""

import statistics

import pytest

from pet_fairseq.errors import UserError
from tests.results.report.made import REFERENCE, WORSE, layer_parameters, save_output, save_run

BETTER = [REFERENCE[0], *WORSE[1:]]


@pytest.fixture
def seeds(runs):
    """Beside teacher and student, `pet` with the seeds 2, 10 and 11; 10 is the slow one."""
    options = dict(width=16)
    for seed, hypotheses, speeds, seconds in (
        (10, WORSE, (20.0, 30.0), 60.0),
        (2, BETTER, (50.0, 110.0), 240.0),
        (11, WORSE, (40.0, 70.0), 60.0),
    ):
        outputs = {(5, k + 1): (hypotheses, speed) for k, speed in enumerate(speeds)}
        save_run(runs / f"pet.seed{seed}", outputs=outputs, seconds=seconds, **options)
    (runs / "pet.seed2/name.txt").write_text("Three times")
    (runs / "pet.seed10/name.txt").write_text("not shown")
    return runs


def test_a_row_aggregates_its_seeds(seeds, report):
    text, rows = report()
    assert set(rows) == {"teacher", "student", "pet"}
    pet = rows["pet"]
    assert [run["name"] for run in pet["runs"]] == ["pet.seed2", "pet.seed10", "pet.seed11"]
    scores = [run["bleu"]["5"] for run in pet["runs"]]
    assert scores[1] == scores[2] == rows["student"]["bleu"]["5"] < scores[0] < 100
    mean = sum(scores) / 3
    spread = (sum((s - mean) ** 2 for s in scores) / 2) ** 0.5
    assert pet["bleu"]["5"] == pytest.approx(mean)
    assert pet["bleu_spread"]["5"] == pytest.approx(spread)
    assert pet["bleu_difference"] == pytest.approx(mean - 100)
    assert pet["seeds"] == 3 and pet["title"] == "Three times"
    assert pet["sentences_per_second"]["5"] == 45.0  # of 20, 30, 40, 50, 70, 110
    assert pet["runs"][0]["sentences_per_second"]["5"] == [50.0, 110.0]
    assert pet["training_seconds"] == 120
    assert pet["layer_parameters"] == layer_parameters(16)
    line = next(line for line in text.splitlines() if line.startswith("| Three times | 3 |"))
    finer = [run["chrf"]["5"] for run in pet["runs"]]
    chrf = f"{statistics.fmean(finer):.2f} ± {statistics.stdev(finer):.2f}"
    cells = f"| {mean:.2f} ± {spread:.2f} | {mean - 100:+.2f} | {chrf} | 45.0 (2.2x) | 2.0 |"
    assert cells in line
    assert "sample standard deviation" in text and "median of 2 to 6 runs" in text
    assert rows["teacher"]["bleu_spread"]["5"] is None


def test_fewer_seeds_are_named_except_one_teacher(seeds, report):
    text, rows = report()
    assert "* missing: student/seeds: it has 1, `pet` has 3" in text
    assert "missing: teacher" not in text and "missing: pet" not in text
    save_run(seeds / "teacher.seed2", 32, {(5, 1): (REFERENCE, 9.0), (5, 2): (REFERENCE, 9.0)})
    (seeds / "teacher").rename(seeds / "teacher.seed1")
    text, rows = report()
    assert "* missing: teacher/seeds: it has 2, `pet` has 3" in text
    assert rows["teacher"]["seeds"] == 2


def test_a_row_that_stands_for_the_teacher_needs_all_seeds(seeds, report):
    """It is no teacher, but a row like the others that happens to come first."""
    text, _ = report(teacher="student")
    assert "* missing: student/seeds: it has 1, `pet` has 3" in text
    assert "missing: teacher" not in text


def test_an_output_that_one_seed_lacks_is_named(seeds, report):
    (seeds / "pet.seed10/generate.beam5.2.txt").unlink()
    for name in ("teacher", "student", "pet.seed2", "pet.seed11"):
        save_output(seeds / name / "generate.beam1.1.txt", WORSE, 10.0)
    text, rows = report()
    files = "pet.seed10/generate.beam1.1.txt, pet.seed10/generate.beam5.2.txt"
    assert f"* missing: {files}; the row is incomplete" in text
    assert rows["pet"]["bleu_spread"]["1"] == 0  # of two seeds
    assert f"| {rows['pet']['bleu']['1']:.2f} ± 0.00 (2 of 3) |" in text
    pooled = statistics.median([50.0, 110.0, 20.0, 40.0, 70.0])
    assert rows["pet"]["sentences_per_second"]["5"] == pooled


def test_a_seed_without_a_checkpoint_has_no_size(seeds, report):
    (seeds / "pet.seed10/checkpoint_best.pt").unlink()
    text, rows = report()
    assert [run["layer_parameters"] is None for run in rows["pet"]["runs"]] == [False, True, False]
    assert "stored, by seed" not in text


def test_order_names_rows(seeds, report):
    (seeds / "order.txt").write_text("pet\nstudent\nteacher\nother\npet.seed10\npet.seed3\n")
    text, _ = report()
    table = text.split("\n\n")[0].splitlines()[2:]
    assert [row.split("|")[1].strip() for row in table] == ["Three times", "Small one", "teacher"]
    assert "missing: run `other`" in text and "missing: run `pet.seed3`" in text
    assert "missing: run `pet`" not in text and "missing: run `pet.seed10`" not in text


def test_significance_is_between_first_seeds(seeds, report):
    text, rows = report(significance=True, baseline="student")
    assert "paired bootstrap, pet against student, first seeds, beam 5: p = " in text
    first = rows["pet"]["p_value"]
    save_output(seeds / "pet.seed11/generate.beam5.1.txt", REFERENCE, 1.0)
    assert report(significance=True, baseline="student")[1]["pet"]["p_value"] == first
    save_output(seeds / "pet.seed2/generate.beam5.1.txt", REFERENCE, 1.0)
    assert report(significance=True, baseline="student")[1]["pet"]["p_value"] < first


def test_seeds_of_different_sizes(seeds, report):
    save_run(seeds / "pet.seed12", 24, {})
    with pytest.raises(
        UserError, match=r"runs pet.seed2 and pet.seed12 differ in size \([\d,]+ la"
    ):
        report()


def test_seeds_whose_layers_kept_different_heads(runs, report):
    """Layers 1 and 2 share: they store two heads if each kept another one, else one."""
    options = dict(arch="pet_transformer", encoder_layers=2, decoder_layers=2, decoder_pairs="none")
    for seed, kept in ((1, "1/2"), (2, "1/1")):
        extra = dict(encoder_pairs="L1=L2", encoder_kept_heads=kept)
        outputs = {(5, 1): (WORSE, 20.0)}
        save_run(runs / f"heads.seed{seed}", 16, outputs, **options, **extra)
    text, rows = report()
    stored, active = (
        [run[key] for run in rows["heads"]["runs"]]
        for key in ("layer_parameters", "active_parameters")
    )
    one_head = 3 * (16 + 1) * 8 + 16 * 8
    assert active[0] == active[1] and stored[0] == stored[1] + one_head
    assert f"heads: {stored[1]:,} to {stored[0]:,} layer parameters stored, by seed" in text


def test_seeds_of_different_test_sets(seeds, report):
    for k in (1, 2):
        save_output(seeds / f"pet.seed11/generate.beam5.{k}.txt", WORSE, 10.0, targets=WORSE)
    with pytest.raises(UserError, match=r"runs \S+ and pet.seed11 translated different test sets"):
        report()


def test_a_run_both_with_and_without_seed(seeds, report):
    save_run(seeds / "pet", 16, {})
    with pytest.raises(UserError, match=r"pet: has no seed in its name, but pet.seed2 has; rename"):
        report()


def test_only_rows_can_be_teacher_or_baseline(seeds, report):
    with pytest.raises(UserError, match=r"--teacher pet.seed2: .* one of pet, student, teacher"):
        report(teacher="pet.seed2")
    text, rows = report(teacher="pet")
    assert rows["pet"]["rate_percent"] == 100
    assert "`pet` stands for the teacher in sizes and speeds" in text
    assert "stands for the teacher" not in report()[0]
