"""The Python of docs/howto/ctranslate2.md runs as it stands there, with a small engine."""

import ast
import re

import pytest

from tests.cli.processes import REPO, run

GUIDE = REPO / "docs/howto/ctranslate2.md"


@pytest.fixture(scope="module")
def folder(student, data, raw, tmp_path_factory):
    """A folder with an exported model and subword models, under the guide's names."""
    pytest.importorskip("ctranslate2")
    from sentencepiece import SentencePieceTrainer
    from subword_nmt.learn_bpe import learn_bpe

    folder = tmp_path_factory.mktemp("deployed")
    to = ("--to", "ctranslate2", "--precision", "int8", "--out", folder / "engine")
    run("pet-fairseq", "export", student[0] / "checkpoint_best.pt", "--data", data, *to)
    text = raw / "train.de"
    SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "engine/spm"),
        vocab_size=50,
        hard_vocab_limit=False,
    )
    with text.open() as words, (folder / "engine/bpe.codes").open("w") as codes:
        learn_bpe(words, codes, 10)
    return folder


def printed(folder, first_import: str) -> list[str]:
    """The texts that the block prints which begins with this import."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(f"import {first_import}\n")]
    script = folder / f"{first_import}.block.py"
    script.write_text(block)
    return ast.literal_eval(run("python", script, cwd=folder).output.splitlines()[-1])


def test_sentencepiece_around_ctranslate2(folder):
    texts = printed(folder, "ctranslate2")
    assert [type(text) for text in texts] == [str, str]


def test_moses_and_bpe_around_ctranslate2(folder):
    texts = printed(folder, "codecs")
    assert [type(text) for text in texts] == [str]
    assert "@@" not in texts[0]
