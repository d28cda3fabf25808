"""examples/movie_reviews/prepare.sh on small data of our own; offline."""

import pytest
from fairseq.data import Dictionary, data_utils

from tests.cli.prompts.downloads import pack, recipe, records, write_duc
from tests.cli.shell import refuses, sh

pytestmark = pytest.mark.slow


def reviews(numbers=range(0, 1000, 50)) -> dict[str, str]:
    names = {
        f"{kind}/cv{number:03}_{number * 7}.txt": f"{kind} is \n the {number} \u00e9\n"
        for number in numbers
        for kind in ("pos", "neg")
    }
    return {f"movie_reviews/{name}": text for name, text in names.items()}


def test_movie_reviews(env, public, tmp_path):
    other = {"movie_reviews/README": "to read", "movie_reviews/pos/": ""}
    pack(public / "movie_reviews.zip", other | reviews())
    sh(recipe("movie_reviews"), **env, MIRROR=f"file://{public}", STAGES="raw")
    expected = {"train": range(0, 800, 50), "valid": (800, 850), "test": (900, 950)}
    for split, numbers in expected.items():
        assert records(tmp_path / "out", split) == [
            {
                "query": "is this review positive or negative?",
                "prompt": f"{kind} is the {number} \u00e9",
                "response": label,
            }
            for number in numbers
            for kind, label in (("neg", "negative"), ("pos", "positive"))
        ]


def test_from_reviews_to_binary_data_and_its_model_for_others(env, public, tmp_path):
    pack(public / "movie_reviews.zip", reviews())
    (tmp_path / "more.txt").write_text("many more words\n" * 100)
    env |= {"TEXT": f"{tmp_path}/more.txt", "VOCAB_SIZE": "130"}
    shown = sh(recipe("movie_reviews"), public, **env).stdout
    assert "train: 32 reviews, 16 positive" in shown and "test: 4 records" in shown
    out = tmp_path / "out/bin"
    dictionary = Dictionary.load(str(out / "dict.txt"))
    data = data_utils.load_indexed_dataset(str(out / "test.response"), dictionary, "mmap")
    words = [dictionary.string(data[i], "sentencepiece") for i in range(4)]
    assert words == ["negative", "positive"] * 2
    again = sh(recipe("movie_reviews"), public, **env).stdout
    assert "raw: done before" in again and "binarise: done before" in again
    for changed in ({"VOCAB_SIZE": "120"}, {"TEXT": str(public)}):
        other = sh(recipe("movie_reviews"), public, **env | changed, check=False)
        refuses(other, f"{tmp_path}/out was made with other settings (--vocab-size 130 --text ")

    write_duc(public)
    model = {"SPM": str(out / "spm.model"), "OUT": str(tmp_path / "duc")}
    shown = sh(recipe("duc2007"), public, **model).stdout
    assert "test: 2 records" in shown
    assert (tmp_path / "duc/bin/dict.txt").read_text().count("\n") == len(dictionary) - 4
    (tmp_path / "other.model").write_bytes(b"another")
    model |= {"SPM": str(tmp_path / "other.model")}
    refuses(sh(recipe("duc2007"), public, **model, check=False), "SPM", "another SentencePiece")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.txt": "x"}, "no reviews of both labels for train"),
        (reviews(range(0, 900, 50)), "no reviews of both labels for test"),
        (reviews() | {"pos/cv001_2.txt": b"caf\xe9"}, "cv001_2.txt is not UTF-8 at byte 3"),
    ],
)
def test_bad_reviews(env, public, tmp_path, members, message):
    pack(public / "movie_reviews.zip", members)
    result = sh(recipe("movie_reviews"), public, **env, STAGES="raw", check=False)
    refuses(result, "movie_reviews.zip", message)
    assert not (tmp_path / "out/raw").exists()
