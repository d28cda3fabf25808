"""A report by word and phone errors in place of BLEU and chrF."""

import json

import pytest

from pet_fairseq import cli
from pet_fairseq.errors import UserError
from pet_fairseq.results.report.write import write_report
from tests.results.report.made import save_output, save_run
from tests.results.report.test_report import cells

RIGHT = ["K AE1 T", "D AO1 G\tD AA1 G", "DH AH0\tDH IY0", "G OW1"]
TEACHERS = ["K AE1 T", "D AA1 G", "DH IY0", "G AA1"]  # of 4 words 1 wrong, of 10 phones 1
STUDENTS = ["K AE1 T S", "D AA1", "DH IY0", "G AA1"]  # 3 wrong, 3 of 10


@pytest.fixture
def spoken(tmp_path):
    """A teacher, and a student with two seeds, of which the second speaks as the teacher does."""
    targets = [line.split("\t")[0] for line in RIGHT]
    for folder, width, said in (
        ("teacher", 32, TEACHERS),
        ("pet.seed1", 8, STUDENTS),
        ("pet.seed2", 8, TEACHERS),
        ("kd.seed1", 8, TEACHERS),
        ("kd.seed2", 8, TEACHERS),
    ):
        save_run(tmp_path / folder, width, {})
        for beam in (1, 5):
            save_output(tmp_path / folder / f"generate.beam{beam}.1.txt", said, 10.0, targets)
    (tmp_path / "right").write_text("".join(f"{line}\n" for line in RIGHT))
    return tmp_path


def test_columns_json_and_plots(spoken, capsys):
    words = ["report", str(spoken), "--reference", str(spoken / "right"), "--score", "wer"]
    assert cli.main([*words, "--baseline", "kd"]) == 0
    text = capsys.readouterr().out
    assert "BLEU" not in text and "chrF" not in text
    main = text.split("\nDifferences")[0]
    row = cells(main, "pet")
    assert row["word errors % beam 5"] == "50.00 ± 35.36"  # 75 and 25
    assert row["to kd, beam 5"] == "+25.00"
    assert row["phone errors % beam 5"] == "20.00 ± 14.14"  # 30 and 10
    assert cells(main, "teacher")["word errors % beam 1"] == "25.00"
    assert "validation NLL, bits | word errors % beam 5 | phone errors % beam 5 |" in text
    assert "+25.00 ± 317.66 | +10.00 ± 127.06" in text  # 50 and 0; 20 and 0
    assert "4 test sentences; a word is right if any of its pronunciations is given" in text
    assert "| reference | DH AH0 / DH IY0 |" in text
    rows = {row["name"]: row for row in json.loads((spoken / "report.json").read_text())}
    assert rows["teacher"]["word_errors"] == {"1": 25, "5": 25}
    assert rows["pet"]["word_errors_spread"]["5"] == pytest.approx(50 / 2**0.5)
    assert rows["pet"]["word_errors_difference"] == 25
    student, twin = rows["pet"]["runs"]
    assert student["word_errors"]["5"] == 75 and student["phone_errors"]["5"] == 30
    assert twin["phone_errors"]["5"] == 10 and "bleu" not in twin
    assert "](word_errors_over_rate.png)" in text
    assert (spoken / "word_errors_over_rate.png").read_bytes().startswith(b"\x89PNG")
    assert not list(spoken.glob("bleu*"))


def test_what_does_not_fit_is_refused(spoken):
    with pytest.raises(UserError, match="--significance: tests BLEU only; leave it out with"):
        write_report(spoken, spoken / "right", significance=True, score="wer")
    (spoken / "right").write_text("K AE1 T\n\nDH AH0\nG OW1\n")
    with pytest.raises(UserError, match=r"--reference .*right: line 2 has a pronunciation without"):
        write_report(spoken, spoken / "right", score="wer")
