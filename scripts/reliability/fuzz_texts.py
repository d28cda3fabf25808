"""Imported by fuzz_readers.py: readers of text files."""

import gzip
import json
import random
from pathlib import Path

from fuzz_inputs import (
    Read,
    damaged,
    damaged_json,
    from_file,
)


def json_lines(folder: Path):
    from pet_fairseq.selfcp.prompts import read_paragraphs, read_records

    record = {"query": "who?", "prompt": "a long tale é of a fox", "response": "the fox"}

    def make(draw: random.Random) -> Read:
        lines = [json.dumps(record).encode()] * draw.randint(0, 2)
        lines.insert(draw.randint(0, len(lines)), damaged_json(draw, record))
        packed = draw.random() < 0.3
        path = folder / ("some.json.gz" if packed else "some.json")
        data = b"\n".join(lines)
        if packed:
            data = gzip.compress(data)
            data = damaged(draw, data) if draw.random() < 0.5 else data
        path.write_bytes(data)
        read = draw.choice((read_records, read_paragraphs))
        return lambda: list(read(path, 100_000, "reading"))

    return make


def dictionary(folder: Path):
    from pet_fairseq.checkpoints.dictionaries import load_dictionary

    path = folder / "dict.txt"
    lines = "".join(f"word{i} {100 - i}\n" for i in range(10)) + "<s> 3 #fairseq:overwrite\n"
    return from_file(
        path, lambda draw: damaged(draw, lines.encode()), lambda: load_dictionary(path, "--data")
    )


def outputs(folder: Path):
    """What fairseq-generate and fairseq-validate printed."""
    from pet_fairseq.recipes.translation.sequence_level import read_pairs
    from pet_fairseq.results.fairseq_output import read_output, read_perplexity
    from pet_fairseq.results.score.answers import read_hypotheses

    path = folder / "generate.txt"
    text = "".join(
        f"S-{i}\tein hund\nT-{i}\ta dog\nH-{i}\t-0.3\ta dog\nD-{i}\t-0.3\ta dog\n" for i in (1, 0)
    )
    text += "valid on 'test' subset | loss 3.1 | ppl 8.6\n"
    text += "Translated 2 sentences (4 tokens) in 0.1s (20.00 sentences/s, 40 tokens/s)\n"
    readers = (
        lambda: read_output(path),
        lambda: read_hypotheses(path, 2, path),
        lambda: read_perplexity(path),
        lambda: list(read_pairs(path)),
    )

    def make(draw: random.Random) -> Read:
        path.write_bytes(damaged(draw, text.encode()))
        return draw.choice(readers)

    return make


def pronunciations(folder: Path):
    """The right pronunciations of words."""
    from pet_fairseq.files import read_lines
    from pet_fairseq.results.word_errors import parse_pronunciations

    path = folder / "test.pronunciations"
    return from_file(
        path,
        lambda draw: damaged(draw, b"K AE1 T\nD AO1 G\tD AA1 G\nDH AH0\tDH IY0\n"),
        lambda: parse_pronunciations(read_lines(path, "FILE"), path, "FILE"),
    )


def scores(folder: Path):
    """Right answers, and scores of runs."""
    from pet_fairseq.results.score.answers import read_gold
    from pet_fairseq.results.score.tables import read_seeds
    from pet_fairseq.runs import read_result

    run = folder / "pet.seed1"
    run.mkdir(exist_ok=True)
    path = run / "result.json"
    samples = (
        ({"q1": ["a", "b"], "q2": ["c"]}, lambda: read_gold(path)),
        ({"bleu": 31.5, "accuracy": 80.0, "total": 100}, lambda: read_result(path)),
        ({"bleu": 31.5, "accuracy": 80.0, "total": 100}, lambda: read_seeds(folder, "pet")),
    )

    def make(draw: random.Random) -> Read:
        value, read = draw.choice(samples)
        path.write_bytes(damaged_json(draw, value))
        return read

    return make


def corpus(folder: Path):
    """A text to translate, and the notes beside its translation."""
    from pet_fairseq.predict.corpus.shards import SETTINGS, read_settings, read_shard_records
    from pet_fairseq.predict.corpus.text import TextReader, check_text

    text = "ein Hund läuft\n\nzwei Hunde\n".encode()
    counts = {"lines": 3, "bad": 1, "counts": {"empty": 1}, "first": {"empty": [2]}}
    shard = {"pairs": 2, "seconds": 0.5, "last": True, **counts}
    settings = {"command": ["translate-corpus", "--beam", "5"], "inputs": {"file": "digest"}}

    def make(draw: random.Random) -> Read:
        kind = draw.choice(("plain", "gz", "shard", "settings"))
        if kind == "shard":
            (folder / "00000.json").write_bytes(damaged_json(draw, shard))
            return lambda: read_shard_records(folder)
        if kind == "settings":
            (folder / SETTINGS).write_bytes(damaged_json(draw, settings))
            return lambda: read_settings(folder / SETTINGS)
        path = folder / f"text.{kind}"
        path.write_bytes(damaged(draw, text if kind == "plain" else gzip.compress(text)))
        return lambda: read_all(str(path))

    def read_all(path: str) -> None:
        check_text([path])
        list(TextReader([path]))

    return make


def record(folder: Path):
    """The note beside a product of a recipe."""
    from pet_fairseq.runner.record import read_record, record_path

    product = folder / "product"
    value = {"command": ["a", "b"], "inputs": {"file": "digest"}, "finished": True}
    return from_file(
        record_path(product), lambda draw: damaged_json(draw, value), lambda: read_record(product)
    )
