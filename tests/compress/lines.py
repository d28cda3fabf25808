"""Files of lines, and of translated pairs."""

from collections.abc import Iterable
from pathlib import Path

from pet_fairseq.predict.bad_lines import BadLines
from pet_fairseq.predict.corpus.shards import ShardRecord, side_path, write_shard_record


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def write_shards(folder, shards):
    """What translate-corpus leaves of these lists of pairs."""
    folder.mkdir()
    for number, pairs in enumerate(shards):
        for side, name in enumerate(("source", "target")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            side_path(folder, number, name).write_text(text)
        last = number == len(shards) - 1
        write_shard_record(folder, number, ShardRecord(len(pairs), 0.1, last, BadLines()))
    return folder
