"""The sections of PET's thesis that code and documents name."""

import re

import pytest

from tests.cli.processes import REPO

CITATION = re.compile(r"(?:PET|thesis), (?:section )?(\d\.\d(?:\.\d)?)")
SECTIONS = {  # by its table of contents
    "pet_fairseq/pet/pairs.py": {"3.1"},  # finding replaceable pairs in encoder and decoder
    "pet_fairseq/pet/pair_search.py": {"3.1"},
    "pet_fairseq/pet/transformer.py": {"3.1"},
    "pet_fairseq/pet/simplified_task.py": {"3.2"},  # warm up with simplified task
    "pet_fairseq/pet/simplified_loss.py": {"3.2"},
    "tests/pet/equations.py": {"3.2"},
    "pet_fairseq/pet/heads.py": {"3.3"},  # layer-wise attention head sampling
    "pet_fairseq/pet/head_sampling.py": {"3.3"},
    "pet_fairseq/distillation/loss.py": {"2.2"},  # knowledge distillation on Transformers
    "pet_fairseq/distillation/criterion.py": {"2.2"},
    "pet_fairseq/parameters.py": {"4.1.3"},  # evaluation metric
    "docs/pet.md": {"3.2", "3.3", "4.1.3"},
}


@pytest.mark.parametrize("file", SECTIONS)
def test_sections(file):
    text = " ".join((REPO / file).read_text(encoding="utf-8").split())
    assert set(CITATION.findall(text)) == SECTIONS[file]


def test_there_is_no_section_after_3_3():
    wrong = re.compile(r"(?:PET|thesis), (?:section 3\.[4-9]|chapter [6-9])")
    files = [p for folder in ("pet_fairseq", "docs") for p in (REPO / folder).rglob("*.[pm][yd]")]
    assert len(files) > 100
    assert [p for p in files if wrong.search(p.read_text(encoding="utf-8"))] == []
