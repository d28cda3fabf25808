"""Makes prompts and responses out of plain text, in the words of a language model.

    python examples/language_model/texts.py TOKENIZER TRAIN TEST OUT

Writes OUT/train, OUT/valid (every 20th text of TRAIN, or fewer, so that they are at most 200) and
OUT/test: a text a line, its prompt and its response with a line break between them.
"""

import argparse
import gzip
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import load_segmenter, segment

VALID = 20  # every 20th text of TRAIN is for validation,
MOST_VALID = 200  # but not more than these, which every epoch reads


def read_lines(path: Path) -> Iterator[str]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.strip("\n")


def make_texts(
    lines: Iterable[str], prompt_words: int, response_words: int
) -> Iterator[tuple[str, str]]:
    """Prompts and responses.

    The response is a paragraph, cut at its end, and the prompt is what stands before it, cut at its
    beginning; no paragraph is used twice. Lines that begin with `=` are headings, and left out.
    """
    before: list[str] = []
    for line in lines:
        if "\t" in line:
            prompt, response = line.split("\t", 1)
            yield prompt.strip(), response.replace("\t", " ").strip()
            continue
        words = line.split()
        if not words or words[0].startswith("="):
            continue
        if len(before) >= prompt_words:
            yield " ".join(before[-prompt_words:]), " ".join(words[:response_words])
            before = []
        else:
            before += words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("tokenizer", "train", "test", "out"):
        parser.add_argument(name, type=Path, metavar=name.upper())
    parser.add_argument("--prompt-words", type=int, default=200, metavar="N")
    parser.add_argument("--response-words", type=int, default=60, metavar="N")
    args = parser.parse_args()
    try:
        tokenizer = load_segmenter(args.tokenizer)
    except UserError as error:
        sys.exit(f"texts.py: error: {error}")

    def encode(path: Path) -> list[str]:
        texts = make_texts(read_lines(path), args.prompt_words, args.response_words)
        whole = [f"{prompt}\n{response}" for prompt, response in texts]
        if not whole:
            sys.exit(f"texts.py: error: {path}: is shorter than one prompt and its response")
        return segment(tokenizer, whole)

    train, test = encode(args.train), encode(args.test)
    step = max(VALID, math.ceil(len(train) / MOST_VALID))
    splits = {
        "train": [text for i, text in enumerate(train) if i % step or len(train) == 1],
        "valid": train[::step],
        "test": test,
    }
    args.out.mkdir(parents=True)
    for name, texts in splits.items():
        (args.out / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        print(f"{name}: {len(texts):,} texts, {sum(len(t.split()) for t in texts):,} words")


if __name__ == "__main__":
    main()
