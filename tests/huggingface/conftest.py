"""What tests of bad input share."""

import pytest

from pet_fairseq.cli import main

OUT = "imported"


@pytest.fixture
def refused(capsys):
    """A check that the command fails in one line with some texts and leaves nothing behind."""

    def check(path, *texts, options=()):
        capsys.readouterr()  # of what made the files
        assert main(["import-hf", str(path), "--out", str(path.parent / OUT), *options]) == 1
        shown = capsys.readouterr()
        (line,) = shown.err.splitlines()
        assert line.startswith("pet-fairseq import-hf: error: ") and not shown.out
        assert not list(path.parent.glob(f"*{OUT}*"))
        for text in texts:
            assert text in line

    return check
