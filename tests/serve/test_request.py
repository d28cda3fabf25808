"""What a body may hold."""

import json

import pytest

from pet_fairseq.serve.request import RequestError, read_texts

REFUSED = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b'{"text": "a"} b', "not JSON"),
    (b'\xef\xbb\xbf{"text": "a"}', "not JSON"),
    (b"[" * 50_000, "not JSON"),
    (b"1" * 5000, "not JSON"),
    (b'{"text": "a\xff"}', "not UTF-8 at byte 11"),
    ('{"text": "ä"}'.encode("latin-1"), "not UTF-8 at byte 10"),
    ('{"text": "a"}'.encode("utf-16"), "not UTF-8 at byte 0"),
    (b'"a"', 'give {"text"'),
    (b"null", 'give {"text"'),
    (b'["a"]', 'give {"text"'),
    (b"{}", 'give {"text"'),
    (b'{"words": "a"}', 'give {"text"'),
    (b'{"text": "a", "beam": 3}', 'give {"text"'),
    (b'{"text": "a", "texts": ["a"]}', 'give {"text"'),
    (b'{"text": 1}', "text: give a string"),
    (b'{"text": null}', "text: give a string"),
    (b'{"text": ["a"]}', "text: give a string"),
    (b'{"text": ""}', "text: empty"),
    (b'{"text": " \\n\\t\\u00a0 "}', "text: empty"),
    (b'{"text": "a \\ud800 b"}', "text: holds a lone surrogate"),
    (b'{"texts": "a"}', "texts: give a list"),
    (b'{"texts": []}', "texts: give a list"),
    (b'{"texts": ["a", 1]}', "text: give a string"),
    (b'{"texts": ["a", ""]}', "text: empty"),
    (b'{"pair": "a"}', 'give {"text"'),
    (b'{"text": "a", "pair": ""}', "pair: empty"),
    (b'{"text": "a", "pair": null}', "pair: give a string"),
    (b'{"texts": ["a"], "pair": "b"}', 'give {"text"'),
    (b'{"texts": [{"text": "a", "label": 1}]}', "text: give a string, or {"),
    (b'{"texts": [{"pair": "a"}]}', "text: give a string, or {"),
    (b'{"texts": [["a", "b"]]}', 'texts: holds a list; give a pair as {"text"'),
]


@pytest.mark.parametrize("body, message", REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_refused(body, message):
    with pytest.raises(RequestError) as error:
        read_texts(body)
    assert error.value.status == 400
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text", ["ein Hund", "  a\nb ", "\u4f60\u597d \U0001f600", "a\u0000b", '"']
)
def test_taken(text):
    assert read_texts(json.dumps({"text": text}).encode()) == ([(text,)], True)
    body = json.dumps({"texts": [text, "b"]}, ensure_ascii=False).encode()
    assert read_texts(body) == ([(text,), ("b",)], False)


def test_pairs():
    pair = {"text": "a b", "pair": "c"}
    assert read_texts(json.dumps(pair).encode()) == ([("a b", "c")], True)
    body = json.dumps({"texts": [pair, "d", {"text": "e"}]}).encode()
    assert read_texts(body) == ([("a b", "c"), ("d",), ("e",)], False)
