"""The model and the limits of `pet-fairseq serve`."""

import contextlib

import pytest

from pet_fairseq.cli import parse
from pet_fairseq.errors import UserError
from pet_fairseq.predict.sentences import TextTooLongError
from pet_fairseq.serve.served_model import ServedModel, load_predictor
from tests.predict.made import make_classifier


def serve(made, *words, path=None):
    """The model as `pet-fairseq serve` loads it."""
    _, args = parse(["serve", path or made.path, "--device", "cpu", *words])
    return load_predictor(args, args.rest)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return make_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.mark.parametrize(
    "options, most",
    [
        (("--long-texts", "refuse"), 40),  # positions of the model
        (("--max-tokens-per-request", "9"), 9),
        (("--max-batch-tokens", "8"), 8),
    ],
)
def test_long_texts_are_refused(classifier, options, most):
    served = serve(classifier, *options)
    assert len(served.encode(("w1 " * (most - 2),)).tokens) == most
    with pytest.raises(TextTooLongError, match=f"{most + 1} tokens, at most {most}"):
        served.encode(("w1 " * (most - 1),))


def test_a_request_is_limited_too(classifier):
    served = ServedModel(serve(classifier, "--max-tokens-per-request", "9"), 9, text_seconds=60)
    (tokens, truncated), (others, _) = served.encode([("w1 w2",), ("w3",)])
    assert len(tokens) == 4 and len(others) == 3 and not truncated
    with pytest.raises(TextTooLongError, match="texts: more than 9 tokens together"):
        served.encode([("w1 w2 w3",), ("w3 w4 w5",)])


def test_a_text_that_takes_too_long_is_ended(classifier, monkeypatch):
    served = ServedModel(serve(classifier), 99, text_seconds=0.2)

    def encode(sentences):
        while True:
            with contextlib.suppress(ZeroDivisionError):
                1 / 0  # noqa: B018

    with monkeypatch.context() as patch:
        patch.setattr(served.model, "encode", encode)
        message = r"texts: not tokenized after 0\.2 seconds; send less, or shorter words"
        with pytest.raises(TextTooLongError, match=message):
            served.encode([("w1",)])
    assert len(served.encode([("w1",)])[0][0]) == 3


def test_long_texts_are_cut(classifier):
    tokens, truncated = serve(classifier).encode(("w1 " * 39,))
    assert truncated and len(tokens) == 40


def test_long_words_and_texts(classifier):
    served = serve(classifier, "--max-word-chars", "50", "--max-text-chars", "90")
    for text, message in (("w" * 51, "a word of 51 characters"), ("w " * 46, "92 characters")):
        with pytest.raises(TextTooLongError, match=message):
            served.encode((text,))


@pytest.mark.parametrize(
    "options, message",
    [
        (("--ratio", "3"), r"--ratio 3: the model works at \[1, 2, 4\]; give one of these"),
        (("--path", "/none.pt"), "CHECKPOINT /none.pt: no such file"),
    ],
)
def test_bad_options(classifier, options, message):
    with pytest.raises(UserError, match=message):
        serve(classifier, *options)
