"""The commands of some recipes, by checksum.

A command that changes is a product that earlier runs cannot go on with: the runner asks for
--again. If that is meant, the assertion shows the new checksum; else it has found a mistake.
"""

import hashlib
from pathlib import Path

import pytest

import pet_fairseq
from pet_fairseq.runner.stage import shell_lines
from tests.recipes.paper import pipeline

pytestmark = pytest.mark.paper

pet_fairseq.register()
EVERYTHING = {
    "demo --rows all": "9c0c70cd26968cfd",
    "demo --rows all --size tiny": "68cc3170099368ec",
    "multi30k --rows all": "a9d3babca348f708",
    "multi30k --rows all --size half": "58ebd6082a48a5ad",
    "multi30k --rows all --size full": "2d7b51d54ff3c717",
    "multi30k --rows all --size full_fast": "4d2c135d315b704f",
    "multi30k --rows kd pet scratch_seqkd --teachers 2 --select bleu": "215e0d9a3b8ba5d5",
    "wmt17_en_fi --rows all": "32876ee95e1d9acf",
    "multi30k --rows all --joined-dictionary": "da80f0f2f6ebabf5",
    "cmudict --rows all": "037069dd32cadb64",
    "glue --task mnli --rows k4 mean_copy no_adaptation first_3": "8310d39f75a3b2fc",
    "glue --task rte --form text --rows k4 narrow_ffn --seed 2": "b3d9f7451ae790a8",
    "squad --rows k4 attention_kv narrow_ffn": "a704959db29dffc3",
    "xsum --rows former recursive control_latter truncate_equal4": "f88fbdef1def585a",
    "recall": "0905af16f7e5d93e",
}


@pytest.mark.parametrize("words", EVERYTHING)
def test_commands_are_what_they_were(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *options = words.split()
    lines = shell_lines(pipeline(name, Path("runs"), *options).stages)
    checksum = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert checksum == EVERYTHING[words], f"{len(lines)} lines"
