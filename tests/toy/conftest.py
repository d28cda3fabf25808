"""One toy corpus, read once, and the words of its lexicon."""

import pytest

from pet_fairseq.toy import corpus as toy

AUXILIARIES = set(
    "bin bist ist sind habe hast hat haben werde wirst wird werden kann kannst können muss musst "
    "müssen soll sollst sollen darf darfst dürfen will willst wollen".split()
)


def read(folder, split, side):
    return (folder / f"{split}.{side}").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("toy")
    toy.write_corpus(out)
    return out


@pytest.fixture(scope="package")
def corpus(folder):
    """All pairs of token lists, train first."""
    sides = [
        [line.split() for split in ("train", "valid", "test") for line in read(folder, split, side)]
        for side in ("de", "en")
    ]
    return list(zip(*sides, strict=True))


@pytest.fixture(scope="package")
def nouns():
    return [noun for words in toy.build_lexicon().nouns.values() for noun in words]


@pytest.fixture(scope="package")
def verbs():
    return [verb for words in toy.build_lexicon().verbs.values() for verb in words]


@pytest.fixture(scope="package")
def finite_joined(verbs):
    """Every finite form as the last word of a subordinate clause, the prefix joined."""
    return AUXILIARIES | {verb.prefix + form for verb in verbs for form in verb.present}


@pytest.fixture(scope="package")
def finite_apart(verbs):
    """Every finite form in a main clause, without its prefix."""
    return AUXILIARIES | {form for verb in verbs for form in verb.present}
