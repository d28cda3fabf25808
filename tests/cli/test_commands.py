"""The command pet-fairseq."""

import pytest

from tests.cli.processes import REPO, run


def fails(*args) -> str:
    """The one line of error of a command that must fail."""
    result = run("pet-fairseq", *args, check=False)
    assert result.status != 0 and "Traceback" not in result.output
    return result.output.strip().splitlines()[-1]


@pytest.mark.cold
def test_user_dir():
    assert run("pet-fairseq", "user-dir").output.splitlines()[-1] == str(REPO / "pet_fairseq")


def test_params_of_the_named_architecture():
    """2,997,120 of 31,543,296 layer parameters: the thesis's 9.5% (Table 4)."""
    out = run("pet-fairseq", "params", "--arch", "pet_transformer_iwslt_de_en").output
    assert "2,997,120" in out and "31,543,296" in out and "9.50%" in out


def test_params_of_checkpoints(student, teacher):
    checkpoint = student[0] / "checkpoint_best.pt"
    out = run("pet-fairseq", "params", checkpoint, "--reference", teacher).output
    assert "159,104" in out and "134,400" in out and "118.38%" in out


@pytest.mark.parametrize("rate", [5.0, 23.3])
def test_target_rate_lists_widths_that_reach_it(rate):
    arch = ("--arch", "pet_transformer_iwslt_de_en")
    out = run("pet-fairseq", "params", *arch, "--target-rate", rate).output
    best = next(line for line in out.splitlines() if "--encoder-embed-dim" in line)
    assert float(best.split()[0]) == pytest.approx(rate, abs=0.5)
    again = run("pet-fairseq", "params", *arch, *best.split()[2:]).output
    assert best.split()[1] in again  # the listed options do make that many parameters


def test_wrong_calls(tmp_path):
    assert "no such file" in fails("params", tmp_path / "none.pt")
    assert "--arch" in fails("params")
    assert "not an encoder-decoder" in fails("params", "--arch", "transformer_lm")
    assert "--target-rate" in fails("params", "--arch", "pet_transformer", "--target-rate", "0")
    assert "--reference nothing" in fails(
        "params", "--arch", "transformer", "--reference", "nothing"
    )
    assert "no such folder" in fails("repair", tmp_path / "none")
    assert "--train-size" in fails("toy-data", tmp_path / "toy", "--train-size", "0")
    assert not (tmp_path / "toy").exists()


def test_toy_data(tmp_path):
    sizes = ("--train-size", "50", "--valid-size", "5", "--test-size", "7")
    run("pet-fairseq", "toy-data", tmp_path / "toy", *sizes)
    lines = {p.name: len(p.read_text().splitlines()) for p in (tmp_path / "toy").iterdir()}
    expected = {"train": 50, "valid": 5, "test": 7}
    assert lines == {f"{s}.{lang}": n for s, n in expected.items() for lang in ("de", "en")}
