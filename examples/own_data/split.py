"""Checks your own parallel text and divides it into train, valid and test.

    python split.py FOLDER OUT SRC TGT [--held-out 1000] [--max-words 200]

Reads FOLDER/{train,valid,test}.SRC and .TGT and writes files of the same names to the folder OUT.
Line n of one side translates line n of the other. If valid or test is missing in FOLDER, pairs of
the training text become that set: --held-out source sentences, at most a tenth of them, each with
its first translation only; training loses every pair with such a source.

Which sentences these are is decided by a hash of their letters and digits in lower case, so neither
a sentence nor its twin with another full stop is in two sets, and every call divides alike. White
space becomes single spaces; pairs with an empty or a very long side are left out of every set.
"""

import argparse
import hashlib
import sys
from pathlib import Path

SPLITS = ("train", "valid", "test")
FEWEST = 20  # different source sentences, so that a tenth is at least two

Pair = tuple[str, str]


class BadInputError(Exception):
    """A file that cannot be used; the message names it."""


def read_side(path: Path) -> list[str]:
    """The lines of a UTF-8 text with white space as single spaces.

    Ends of lines may be CR LF, and the text may begin with a byte order mark.

    Raises:
        BadInputError: no such file, not UTF-8, no words in it.
    """
    if not path.is_file():
        raise BadInputError(f"{path}: no such file")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInputError(f"{path}: line {line} is not UTF-8; save the file as UTF-8") from error
    lines = [" ".join(line.split()) for line in text.removesuffix("\n").split("\n")]
    if not any(lines):
        raise BadInputError(f"{path}: empty; give a text with a sentence a line")
    return lines


def read_pairs(folder: Path, split: str, languages: tuple[str, str]) -> list[Pair]:
    """Both sides of a set, line by line.

    Raises:
        BadInputError: a side that cannot be read, or sides that differ in their number of lines.
    """
    paths = [folder / f"{split}.{language}" for language in languages]
    sides = [read_side(path) for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise BadInputError(
            f"{paths[0]} has {len(sides[0])} lines, {paths[1]} has {len(sides[1])}; "
            "line n of one has to translate line n of the other"
        )
    return list(zip(*sides))


def usable(pairs: list[Pair], max_words: int) -> list[Pair]:
    """The pairs whose sides both have 1 to `max_words` words."""
    return [pair for pair in pairs if all(1 <= len(side.split()) <= max_words for side in pair)]


def key(source: str) -> str:
    """What sentences have in common of which no two may be in different sets."""
    return "".join(filter(str.isalnum, source.lower()))


def hold_out(pairs: list[Pair], splits: list[str], size: int) -> dict[str, list[Pair]]:
    """Divide training pairs into `train` and the given sets, each of at most `size` pairs.

    Raises:
        BadInputError: too few different source sentences.
    """
    keys = {key(source) for source, _ in pairs}
    if splits and len(keys) < FEWEST:
        raise BadInputError(
            f"train: {len(keys)} different sentences, too few to split {' and '.join(splits)} off "
            f"(at least {FEWEST}); give more text, or files of your own for {' and '.join(splits)}"
        )
    ordered = sorted(keys, key=lambda text: hashlib.sha1(text.encode()).hexdigest())
    size = min(size, len(keys) // 10)
    owner = {
        text: split for i, split in enumerate(splits) for text in ordered[i * size : (i + 1) * size]
    }
    sets: dict[str, list[Pair]] = {split: [] for split in ("train", *splits)}
    taken = set()
    for source, target in pairs:
        text = key(source)
        split = owner.get(text, "train")
        if split == "train" or text not in taken:
            sets[split].append((source, target))
        taken.add(text)
    return sets


def divide(
    folder: Path, languages: tuple[str, str], size: int, max_words: int
) -> dict[str, list[Pair]]:
    """The usable pairs of every set, read from the folder or held out of its training text.

    Raises:
        BadInputError: texts that cannot be used.
    """
    given = [
        split
        for split in SPLITS
        if split == "train" or any((folder / f"{split}.{lang}").exists() for lang in languages)
    ]
    sets = {}
    for split in given:
        pairs = read_pairs(folder, split, languages)
        sets[split] = usable(pairs, max_words)
        print(
            f"{folder}/{split}: {len(pairs)} pairs, {len(pairs) - len(sets[split])} left out "
            f"(a side is empty or has more than {max_words} words)"
        )
        if not sets[split]:
            raise BadInputError(
                f"{folder}/{split}: no usable pair; give whole sentences, a line each"
            )
    missing = [split for split in SPLITS if split not in given]
    return sets | hold_out(sets["train"], missing, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("target", metavar="TGT")
    parser.add_argument("--held-out", type=int, default=1000, help="pairs of a set split off")
    parser.add_argument(
        "--max-words", type=int, default=200, help="of a side; default: %(default)s"
    )
    args = parser.parse_args()

    languages = (args.source, args.target)
    try:
        sets = divide(args.folder, languages, args.held_out, args.max_words)
    except BadInputError as error:
        sys.exit(f"split.py: {error}")
    args.out.mkdir(parents=True, exist_ok=True)
    trained_on = {key(source) for source, _ in sets["train"]}
    for split in SPLITS:
        for side, language in enumerate(languages):
            text = "".join(pair[side] + "\n" for pair in sets[split])
            (args.out / f"{split}.{language}").write_text(text, encoding="utf-8", newline="\n")
        known = sum(key(source) in trained_on for source, _ in sets[split])
        seen = f"; {known} of its sources are in train, too" if split != "train" and known else ""
        print(f"{split}: {len(sets[split])} pairs{seen}")


if __name__ == "__main__":
    main()
