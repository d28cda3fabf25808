"""Differences seed by seed: the numbers by hand, what is not paired, logs that are not finished."""

import pytest

from pet_fairseq.errors import UserError
from tests.results.report.made import REFERENCE, WORSE, save_run

LOG = (
    "2026-01-01 | INFO | valid | valid on 'valid' subset | loss 9 | nll_loss 8.5 | kl 7 | ppl 1\n"
    "2026-01-01 | INFO | valid | valid on 'valid' subset | loss 1.5 | nll_loss {nll} | kl {kl} "
    "| agreement 80.1 | ppl 5.8 | wps 10 | num_updates 30\n"
)
# by row and seed: NLL and KL
VALUES = {
    ("kd", 1): (2.5, 0.4),
    ("kd", 2): (2.7, 0.6),
    ("kd", 3): (2.6, 0.5),
    ("pet", 1): (2.6, 0.3),
    ("pet", 2): (2.9, 0.4),
    ("pet", 4): (9.0, 9.0),
}


@pytest.fixture
def seeds(runs):
    """`kd` and `pet`, which have the seeds 1 and 2 in common."""
    for (row, seed), (nll, kl) in VALUES.items():
        folder = runs / f"{row}.seed{seed}"
        save_run(folder, 8, {(5, 1): (REFERENCE if row == "kd" else WORSE, 9.0)})
        (folder / "validate.txt").write_text(LOG.format(nll=nll, kl=kl))
    return runs


def paired_lines(text):
    table = text.split("of the same seed")[1].split("\n* ")[0]
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if "|" in line
    ]


def test_only_common_seeds_count(seeds, report):
    text, rows = report(baseline="kd")
    header, _, pet = paired_lines(text)
    assert header[:4] == ["run", "seeds", "validation KL, bits", "validation NLL, bits"]
    # KL: -0.1 and -0.2, so -0.15 with a standard error of 0.05; t with one degree is 12.706
    assert pet[:4] == ["pet", "2", "-0.150 ± 0.635", "+0.150 ± 0.635"]
    scores = {row: rows[row]["runs"][0] for row in ("kd", "pet")}
    for column, name in ((4, "bleu"), (5, "chrf")):
        difference = scores["pet"][name]["5"] - scores["kd"][name]["5"]
        assert pet[column] == f"{difference:+.2f} ± 0.00" and difference < -10
    assert scores["pet"]["validation_kl_bits"] == 0.3
    assert scores["kd"]["validation_nll_bits"] == 2.5


def test_no_table_without_two_common_seeds(seeds, report):
    text, _ = report()  # against the teacher, which has one training
    assert "of the same seed" not in text


def test_a_criterion_without_kl(seeds, report):
    for log in seeds.glob("kd.seed*/validate.txt"):
        log.write_text(LOG.replace(" | kl {kl}", "").format(nll=2))
    _, _, pet = paired_lines(report(baseline="kd")[0])
    assert pet[2] == "-" and pet[3] == "+0.750 ± 1.906"


def test_an_unfinished_log_is_refused(seeds, report):
    (seeds / "kd.seed2" / "validate.txt").write_text("2026-01-01 | INFO | loading model\n")
    with pytest.raises(UserError, match=r"kd.seed2/validate.txt: no result in it.*validate again"):
        report(baseline="kd")
