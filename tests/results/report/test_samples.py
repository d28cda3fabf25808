"""The sentences at the end of a report: which ones, whose translations, in which order."""

import pytest

from pet_fairseq.results.report.tables import spread
from tests.results.report.made import REFERENCE, WORSE, save_run


def test_each_sentence_has_its_translations(report):
    text, _ = report()
    _, samples = text.split("\nTranslations, beam 5:\n\n")
    tables = samples.strip().split("\n\n")
    assert len(tables) == 3
    for i, table in enumerate(tables):
        assert table.splitlines() == [
            f"| sentence {i + 1} |  |",
            "| --- | --- |",
            "| source | quelle |",
            f"| reference | {REFERENCE[i]} |",
            f"| teacher | {REFERENCE[i]} |",
            f"| Small one | {WORSE[i]} |",
        ]
    assert text.index("![BLEU over the compression rate](bleu_over_rate.png)") < text.index("* ")


def test_at_most_six_rows_and_none_without_translations(runs, report):
    for number in range(7):
        save_run(runs / f"more{number}", 8, {(5, 1): (WORSE, 1.0)})
    samples = report()[0].split("Translations, beam 5")[1]
    assert "| more4 |" in samples and "| more5 |" not in samples
    for path in runs.glob("*/generate.*"):
        path.unlink()
    assert "Translations" not in report()[0]


def test_without_sources(runs, report):
    for path in runs.glob("*/generate.*"):
        path.write_text("".join(x for x in path.read_text().splitlines(True) if x[:2] != "S-"))
    samples = report()[0].split("Translations, beam 5")[1]
    assert "| source |" not in samples and f"| reference | {REFERENCE[0]} |" in samples


@pytest.mark.parametrize(
    "number, expected", [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (1000, [166, 500, 833])]
)
def test_spread(number, expected):
    assert spread(number, 3) == expected
