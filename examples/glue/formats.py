"""Reads a task in the formats it comes in and divides it into train, valid and test.

    python formats.py TASK OUT FILE...

TASK is one of GLUE, or own for tables of your own, with the columns sentence, or sentence1 and
sentence2, and label. FILE... is the task's zip archive, or its tables (.tsv or .tsv.gz), or for rte
an archive with the XML of RTE-1 to 3 (*_dev.xml, *_test.xml), or for mrpc msr_paraphrase_train.txt
with mrpc_dev_ids.tsv or msr_paraphrase_test.txt, or for cola its authors' archive, which has GLUE's
dev set in two parts. Writes SPLIT.sentence1, SPLIT.sentence2 (pairs only), SPLIT.label, SPLIT.text
(the question) and SPLIT.answer to the new folder OUT.

GLUE keeps the labels of its test sets, so its dev set is the test set here and a part of train is
valid (hold_out). Where all three tables have labels they are taken as they are.
"""

import argparse
import gzip
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional
from xml.etree import ElementTree

from tasks import TASKS, Task

XML_LABELS = {
    **dict.fromkeys(("TRUE", "YES", "ENTAILMENT"), "entailment"),
    **dict.fromkeys(("FALSE", "NO", "UNKNOWN", "CONTRADICTION"), "not_entailment"),
}
OWN = "own"  # a task that GLUE does not have
HELD_OUT = 200  # the fewest first sentences in valid, if train has enough
MOST_BROKEN = 1000  # at most one row in 1,000 may be broken, as in old versions of QQP
Readers = dict[str, Callable[[], bytes]]


class Example(NamedTuple):
    sentences: tuple[str, ...]
    label: str  # name of its class


class BadInputError(Exception):
    """A file that is not what it should be; the message names it."""


def readers(paths: list[Path]) -> Readers:
    """How to read each file, by its name; files of a zip archive by theirs, in any folder of it.

    CoLA's archives have a folder `tokenized`, whose tables have the names of those that are read.
    """
    by_name: Readers = {}
    for path in paths:
        if path.suffix == ".zip":
            archive = zipfile.ZipFile(path)
            by_name |= {
                Path(name).name: partial(archive.read, name)
                for name in archive.namelist()
                if Path(name).parent.name != "tokenized"
            }
        elif path.suffix == ".gz":
            by_name[path.stem] = partial(gunzip, path)
        else:
            by_name[path.name] = path.read_bytes
    return by_name


def gunzip(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def rows(files: Readers, name: str) -> list[list[str]]:
    """The fields of each line of a table."""
    if name not in files:
        raise BadInputError(f"there is no {name}")
    try:
        text = files[name]().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name}: not UTF-8 at byte {error.start}") from error
    return [line.rstrip("\r").split("\t") for line in text.removesuffix("\n").split("\n")]


def examples(name: str, table: list[list[str]], task: Task) -> list[Example]:
    """The examples of a table, without its cut or joined lines."""
    first = 1 if task.header else 2  # line of the first example
    header, *body = [task.header, *table] if task.header else table
    for column in (*task.columns, task.label):
        if column not in header:
            raise BadInputError(f"{name}: no column {column}, there are {', '.join(header)}")
    broken = [number for number, row in enumerate(body, first) if len(row) != len(header)]
    if len(broken) * MOST_BROKEN > len(table):
        raise BadInputError(
            f"{name}: line {broken[0]} has {len(table[broken[0] - 1])} columns, not {len(header)}"
        )
    if broken:
        print(f"{name}: {len(broken)} broken lines left out, the first is {broken[0]}")
    columns = [header.index(column) for column in task.columns]
    label = header.index(task.label)
    kept = []
    for number, row in enumerate(body, first):
        if len(row) != len(header):
            continue
        if row[label] not in task.classes:
            known = ", ".join(task.classes)
            raise BadInputError(f"{name}: line {number}: label '{row[label]}', not one of {known}")
        sentences = tuple(one_line(row[column]) for column in columns)
        kept.append(Example(sentences, task.classes[row[label]]))
    return kept


def own_task(name: str, table: list[list[str]]) -> Task:
    """The task of a table of one's own: its labels are the classes, and the answers.

    Raises:
        BadInputError: the name of a class is not one word, or there is only one class.
    """
    header, *body = table
    columns = ("sentence1", "sentence2") if "sentence2" in header else ("sentence",)
    classes = {}
    if "label" in header:
        place = header.index("label")
        labels = {row[place] for row in body if len(row) == len(header)}
        classes = {label: label for label in sorted(labels)}
    for label in classes:
        if len(label.split()) != 1:
            raise BadInputError(f"{name}: label '{label}': a class has to be one word")
    if len(classes) == 1:
        raise BadInputError(f"{name}: all labels are '{min(classes)}'; give two or more")
    question = " ".join("{}" for _ in columns)
    return Task(columns, "label", classes, question, answers=classes)


def one_line(text: str) -> str:
    return " ".join(text.split())


def xml_examples(name: str, data: bytes) -> list[Example]:
    """The pairs of one file of RTE-1 to 3."""
    try:
        pairs = list(ElementTree.fromstring(data).iter("pair"))
    except ElementTree.ParseError as error:
        raise BadInputError(f"{name}: not XML ({error})") from error
    labelled = []
    for pair in pairs:
        value = pair.get("value") or pair.get("entailment") or ""
        sentences = tuple(one_line(pair.findtext(tag) or "") for tag in ("t", "h"))
        if value.upper() not in XML_LABELS:
            raise BadInputError(f"{name}: pair {pair.get('id')}: label '{value}' is unknown")
        if not all(sentences):
            raise BadInputError(f"{name}: pair {pair.get('id')}: no text in its t or h")
        labelled.append(Example(sentences, XML_LABELS[value.upper()]))
    return labelled


def hold_out(train: list[Example]) -> tuple[list[Example], list[Example]]:
    """Divide train: valid gets every 20th different first sentence.

    Examples with the same first sentence stay together. It is every n-th for a smaller n, down to
    2, if that would be fewer than HELD_OUT sentences.
    """
    firsts = list(dict.fromkeys(example.sentences[0] for example in train))
    every = max(2, min(20, len(firsts) // HELD_OUT))
    chosen = set(firsts[every - 1 :: every])
    parts: tuple[list[Example], list[Example]] = ([], [])
    for example in train:
        parts[example.sentences[0] in chosen].append(example)
    return parts


def divided(
    train: list[Example], test: list[Example], valid: Optional[list[Example]] = None
) -> dict[str, list[Example]]:
    if valid is None:
        train, valid = hold_out(train)
    return {"train": train, "valid": valid, "test": test}


def tables(files: Readers, task: Task) -> dict[str, list[Example]]:
    """The sets of GLUE's own layout; test.tsv counts if it has labels."""
    names = ("train.tsv", f"{task.dev}.tsv")
    train, dev = (examples(name, rows(files, name), task) for name in names)
    if "test.tsv" in files and task.label in (table := rows(files, "test.tsv"))[0]:
        return divided(train, examples("test.tsv", table, task), valid=dev)
    return divided(train, dev)


def xml_files(files: Readers) -> dict[str, list[Example]]:
    """The sets of RTE-1 to 3: their development data is train, their test data is test."""
    sets = {}
    for kind in ("dev", "test"):
        names = sorted(name for name in files if name.endswith(f"_{kind}.xml"))
        if not names:
            raise BadInputError(f"there is no *_{kind}.xml")
        sets[kind] = [pair for name in names for pair in xml_examples(name, files[name]())]
    return divided(sets["dev"], sets["test"])


def paraphrases(files: Readers, task: Task) -> dict[str, list[Example]]:
    """The sets of MRPC's own files; test is GLUE's dev set if the files have its numbers."""
    name, numbers = "msr_paraphrase_train.txt", "mrpc_dev_ids.tsv"
    header, *table = rows(files, name)
    if numbers not in files:
        other = "msr_paraphrase_test.txt"
        test = examples(other, rows(files, other), task)
        return divided(examples(name, [header, *table], task), test)
    dev = {tuple(row[:2]) for row in rows(files, numbers)}
    parts = ([header], [header])
    for row in table:
        parts[tuple(row[1:3]) in dev].append(row)
    return divided(*(examples(name, part, task) for part in parts))


def acceptability(files: Readers, task: Task) -> dict[str, list[Example]]:
    """The sets of CoLA's authors: their dev sets, in domain and out of domain, are GLUE's one."""
    names = ("in_domain_train.tsv", "in_domain_dev.tsv", "out_of_domain_dev.tsv")
    train, inside, outside = (examples(name, rows(files, name), task) for name in names)
    return divided(train, inside + outside)


def task_of(name: str, files: Readers) -> Task:
    """The task of that name; that of OWN is what its training table says."""
    return own_task("train.tsv", rows(files, "train.tsv")) if name == OWN else TASKS[name]


def read(name: str, files: Readers, task: Task) -> dict[str, list[Example]]:
    """The examples of each set of the task of that name."""
    if name == "rte" and any(file.endswith(".xml") for file in files):
        return xml_files(files)
    if name == "mrpc" and "msr_paraphrase_train.txt" in files:
        return paraphrases(files, task)
    if name == "cola" and "train.tsv" not in files and "in_domain_train.tsv" in files:
        return acceptability(files, task)
    return tables(files, task)


def write(prefix: str, chosen: list[Example], task: Task) -> None:
    """Write PREFIX.sentence1 and the other files of a set."""
    columns = {
        f"sentence{i + 1}": [example.sentences[i] for example in chosen]
        for i in range(len(task.columns))
    }
    columns["label"] = [example.label for example in chosen]
    columns["text"] = [task.text(example.sentences) for example in chosen]
    columns["answer"] = [task.answers[example.label] for example in chosen]
    for kind, texts in columns.items():
        Path(f"{prefix}.{kind}").write_text("".join(t + "\n" for t in texts), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=(*TASKS, OWN))
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    try:
        files = readers(args.files)
        task = task_of(args.task, files)
        sets = read(args.task, files, task)
        empty = [split for split, chosen in sets.items() if not chosen]
        if empty:
            raise BadInputError(f"no examples for {empty[0]}")
    except (BadInputError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        where = ", ".join(map(str, args.files))
        sys.exit(f"formats.py: {where}: {error}; give other files")
    args.out.mkdir(parents=True)
    for split, chosen in sets.items():
        write(f"{args.out}/{split}", chosen, task)
        counts = Counter(example.label for example in chosen)
        classes = ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
        print(f"{split}: {len(chosen)} examples ({classes})")


if __name__ == "__main__":
    main()
