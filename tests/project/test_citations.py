"""The sections and equations of the three papers that code and documents name."""

import re

import pytest

from tests.cli.processes import REPO

CITATION = re.compile(
    r"(?:PET|thesis|Variator|SelfCP), (?:section |(eq\. ))?(\d\.\d(?:\.\d)?|(?<=eq\. )\d)"
)
SECTIONS = {  # by their tables of contents
    "pet_fairseq/pet/pairs.py": {"3.1"},  # finding replaceable pairs in encoder and decoder
    "pet_fairseq/pet/pair_search/search.py": {"3.1"},
    "pet_fairseq/pet/transformer.py": {"3.1"},
    "pet_fairseq/pet/simplified_task.py": {"3.2"},  # warm up with simplified task
    "pet_fairseq/pet/simplified_loss.py": {"3.2", "eq. 3.1"},
    "tests/pet/equations.py": {"3.2"},
    "pet_fairseq/pet/heads.py": {"3.3"},  # layer-wise attention head sampling
    "pet_fairseq/pet/head_sampling.py": {"3.3"},
    "pet_fairseq/distillation/loss.py": {"2.2"},  # knowledge distillation on Transformers
    "pet_fairseq/distillation/criterion.py": {"2.2"},
    "pet_fairseq/nn/parameter_counts.py": {"4.1.3"},  # evaluation metric
    "docs/pet.md": {"3.2", "3.3", "4.1.3"},
    "pet_fairseq/variator/plugin.py": {"3.2"},  # overall framework: both layers of a plugin
    "pet_fairseq/variator/criterion.py": {"3.3", "eq. 1"},  # plugin training
    "pet_fairseq/variator/sites.py": {"3.4"},  # complexity analysis
    "pet_fairseq/variator/neurons.py": {"4.9"},  # neuron-level analysis
    "pet_fairseq/selfcp/segments.py": {"3.1"},  # training: former, latter, concatenated
    "pet_fairseq/selfcp/mixed_input.py": {"3.1"},
    "pet_fairseq/selfcp/compressor.py": {"eq. 1"},  # hidden states at the memory tags
    "pet_fairseq/selfcp/connector.py": {"eq. 2"},
    "pet_fairseq/selfcp/criterion.py": {"eq. 3"},  # the language model's loss
    "pet_fairseq/selfcp/draws.py": {"3.1.1", "5.1"},  # former or latter; ratios from 2 to 16
    "pet_fairseq/selfcp/choose.py": {"4.5.3"},  # in-context learning
    "pet_fairseq/selfcp/bank/bank.py": {"eq. 4"},  # cosine similarity of demonstrations
    "pet_fairseq/selfcp/bank/demonstrations.py": {"3.2", "eq. 4"},  # in-context learning
}


@pytest.mark.parametrize("file", SECTIONS)
def test_sections(file):
    text = " ".join((REPO / file).read_text(encoding="utf-8").split())
    assert {"".join(found) for found in CITATION.findall(text)} == SECTIONS[file]


def test_there_is_no_section_after_the_last():
    wrong = re.compile(
        r"(?:PET|thesis), (?:section 3\.[4-9]|chapter [6-9])|Variator, section 3\.[5-9]"
        r"|SelfCP, section 3\.[3-9]"
    )
    files = [p for folder in ("pet_fairseq", "docs") for p in (REPO / folder).rglob("*.[pm][yd]")]
    assert len(files) > 100
    assert [p for p in files if wrong.search(p.read_text(encoding="utf-8"))] == []
