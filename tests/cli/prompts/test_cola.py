"""examples/cola/prepare.sh on small data of our own; offline."""

import pytest

from tests.cli.prompts.downloads import pack, recipe, records
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def table(sentences: list[str]) -> str:
    rows = (f"gj04\t{len(s) % 2}\t{'*' * (len(s) % 2)}\t{s}\n" for s in sentences)
    return "".join(rows)


LABELS = ("unacceptable", "acceptable")
DEV = ("in_domain_dev", "out_of_domain_dev")


def pack_as_the_authors(path, sets: dict[str, list[str]]) -> None:
    """With the dev set divided in two, which have a sentence in common, and all of it in tokens."""
    first, *others = sets["dev"]
    parts = dict(zip(("in_domain_train", *DEV), (sets["train"], [first], [*others, first])))
    members = {"README": ""}
    for name, sentences in parts.items():
        members[f"raw/{name}.tsv"] = table(sentences)
        members[f"tokenized/{name}.tsv"] = table([s.replace(".", " .") for s in sentences])
    pack(path, {f"cola_public/{name}": text for name, text in members.items()})


AUTHORS = "cola_public_1.1.zip"


@pytest.mark.parametrize("source", ["CoLA.zip", AUTHORS, "cola_public.zip", "tables"])
def test_cola(env, public, tmp_path, source):
    train = [f"Sentence {'so ' * (i % 7)}{i}." for i in range(45)]
    sets = {"train": [*train, train[3]], "dev": ["A new  one.", train[0]]}
    members = {f"{name}.tsv": table(sentences) for name, sentences in sets.items()}
    if source == "CoLA.zip":
        others = {f"original/raw/{name}.tsv": "no table" for name in ("in_domain_train", *DEV)}
        others["test.tsv"] = "index\tsentence\n"
        members = {f"CoLA/{name}": text for name, text in (members | others).items()}
        pack(public / source, members)
        pack(public / AUTHORS, {"README": "not this one"})
    elif source == "tables":
        for name, text in members.items():
            (public / name).write_text(text)
    else:
        pack_as_the_authors(public / source, sets)
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
        (table(["A."]), "3", "fewer than 20 sentences to train on"),
        (good, "24", "--shots 24: there are 24 sentences to train on"),
        (good, "-1", "--shots -1:"),
    ):
        (public / "train.tsv").write_text(train)
        (public / "dev.tsv").write_text(good)
        result = sh(recipe("cola"), public, **env, STAGES="raw", SHOTS=shots, check=False)
        refuses(result, message)
    assert not (tmp_path / "out/raw").exists()


def test_other_folders(env, public, tmp_path):
    result = sh(recipe("cola"), public, **env, STAGES="raw", check=False)
    refuses(result, f"{public}: has neither CoLA.zip, {AUTHORS}, cola_public.zip nor train.tsv")
    pack(public / AUTHORS, {"cola_public/raw/in_domain_dev.tsv": table(["A."])})
    result = sh(recipe("cola"), public, **env, STAGES="raw", check=False)
    refuses(result, AUTHORS, "there is no in_domain_train.tsv")
    pack(public / AUTHORS, {"README": ""})
    result = sh(recipe("cola"), public, **env, STAGES="raw", check=False)
    refuses(result, AUTHORS, "there is no train.tsv")
    assert not (tmp_path / "out/raw").exists()
