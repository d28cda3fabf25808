"""Tables of the students of run.sh: their scores, and what a row is above or below another.

    python table.py STUDENTS [--against pairs] [--sentences]

STUDENTS holds a folder ROW.seedN of `pet-fairseq compress` for each student. Differences are paired
by seed, with Student's t over the seeds; a row with one seed has none. With --sentences their
intervals are those of a paired bootstrap over the test sentences, drawn once for all seeds.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from pet_fairseq.files import read_lines
from pet_fairseq.markdown import table
from pet_fairseq.results.bleu import cached_bleu, cached_chrf, mean_score_difference
from pet_fairseq.statistics import Sample

MEGABYTE = 1e6
SCORES = ("bleu", "chrf")


def read(students: Path) -> dict[str, dict[int, dict]]:
    """The student's figures of each row and seed, in the engine of its report."""
    rows: dict[str, dict[int, dict]] = defaultdict(dict)
    for path in sorted(students.glob("*.seed*/report.json")):
        name = re.fullmatch(r"(\w+)\.seed(\d+)", path.parent.name)
        if name is not None:
            report = json.loads(path.read_text(encoding="utf-8"))
            figures = report["student"]["engines"][report["engine"]]
            rows[name[1]][int(name[2])] = figures | {"texts": path.parent / "translations"}
    return rows


def cells(row: dict[int, dict], other: dict[int, dict], by_sentences: bool) -> list[str]:
    """Seeds, size, scores, and the differences of the scores to the other row's."""
    size = Sample([each["bytes"] / MEGABYTE for each in row.values()]).mean
    scores = [Sample([each[score] for each in row.values()]) for score in SCORES]
    seeds = [seed for seed in row if seed in other] if row is not other else []
    if by_sentences and seeds:
        differences = over_sentences([(row[seed]["texts"], other[seed]["texts"]) for seed in seeds])
    else:
        samples = [Sample([row[s][name] - other[s][name] for s in seeds]) for name in SCORES]
        differences = [interval(sample) if len(seeds) > 1 else "" for sample in samples]
    return [str(len(row)), f"{size:.2f}", *(sample.text() for sample in scores), *differences]


def over_sentences(seeds: list[tuple[Path, Path]]) -> list[str]:
    """The differences of the scores between the translations in folders, by the sentences."""
    (ours, _), *_ = seeds
    references = read_lines(ours / "reference.txt", "STUDENTS")
    texts = [tuple(read_lines(folder / "student.txt", "STUDENTS") for folder in s) for s in seeds]
    metrics = (cached_bleu(references), cached_chrf(references))
    return [mean_score_difference(metric, texts).text() for metric in metrics]


def interval(difference: Sample) -> str:
    """The mean and its 95% interval by Student's t."""
    half = difference.half_width or 0.0
    mean = difference.mean
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("students", type=Path)
    parser.add_argument("--against", default="pairs", metavar="ROW")
    parser.add_argument("--sentences", action="store_true", help="bootstrap over the sentences")
    args = parser.parse_args()
    rows = read(args.students)
    if args.against not in rows:
        sys.exit(f"table.py: {args.students}: no report of the row {args.against}")
    header = ["row", "seeds", "MB", "BLEU", "chrF"]
    header += [f"{score} to {args.against}" for score in ("BLEU", "chrF")]
    other = rows[args.against]
    lines = [[name, *cells(row, other, args.sentences)] for name, row in rows.items()]
    print(table(header, lines), end="")


if __name__ == "__main__":
    main()
