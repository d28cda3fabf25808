"""examples/cola/prepare.sh on small data of our own; offline."""

import pytest

from tests.cli.prompts.downloads import pack, recipe, records
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def table(sentences: list[str]) -> str:
    rows = (f"gj04\t{len(s) % 2}\t{'*' * (len(s) % 2)}\t{s}\n" for s in sentences)
    return "".join(rows)


LABELS = ("unacceptable", "acceptable")


@pytest.mark.parametrize("zipped", [True, False])
def test_cola(env, public, tmp_path, zipped):
    train = [f"Sentence {'so ' * (i % 7)}{i}." for i in range(45)]
    sets = {"train": [*train, train[3]], "dev": ["A new  one.", train[0]]}
    members = {f"{name}.tsv": table(sentences) for name, sentences in sets.items()}
    if zipped:
        others = {"original/raw/in_domain_train.tsv": "no table", "test.tsv": "index\tsentence\n"}
        members = {f"CoLA/{name}": text for name, text in (members | others).items()}
        pack(public / "CoLA.zip", members)
    else:
        for name, text in members.items():
            (public / name).write_text(text)
    sh(recipe("cola"), public, **env, STAGES="raw", SHOTS="6")

    held_out = [train[19], train[39]]
    kept = [sentence for sentence in train if sentence not in held_out]
    possible = {f"Sentence: {s} Answer: {LABELS[len(s) % 2]}" for s in kept}
    expected = {"train": kept, "valid": held_out, "test": ["A new one.", train[0]]}
    seen = set()
    for split, sentences in expected.items():
        asked = [f"is this sentence acceptable or unacceptable? {s}" for s in sentences]
        found = records(tmp_path / "out", split)
        assert [record["query"] for record in found] == asked
        for sentence, record in zip(sentences, found):
            assert record["response"] == LABELS[len(sentence.replace("new one", "new  one")) % 2]
            shots = record["prompt"].split("Sentence: ")[1:]
            shots = {f"Sentence: {shot.strip()}" for shot in shots}
            assert len(shots) == 6 and shots <= possible
            assert not any(shot.startswith(f"Sentence: {sentence} ") for shot in shots)
            seen.add(record["prompt"])
    assert len(seen) == 47  # each has others
    result = sh(recipe("cola"), public, **env, SHOTS="5", check=False)
    refuses(result, "SHOTS=5", "has prompts of 6 examples")


def test_bad_tables(env, public, tmp_path):
    good = table([f"Sentence {i}." for i in range(25)])
    for train, shots, message in (
        (good + "gj04\t2\t\tA.\n", "3", "train.tsv: line 26: not source, 0 or 1, mark, sentence"),
        (good + "gj04\t1\tA.\n", "3", "train.tsv: line 26: not source"),
        (table(["A."]), "3", "train.tsv: fewer than 20 sentences"),
        (good, "24", "--shots 24: there are 24 sentences to train on"),
        (good, "-1", "--shots -1:"),
    ):
        (public / "train.tsv").write_text(train)
        (public / "dev.tsv").write_text(good)
        result = sh(recipe("cola"), public, **env, STAGES="raw", SHOTS=shots, check=False)
        refuses(result, message)
    assert not (tmp_path / "out/raw").exists()
