"""CICERO's choices as sentences with a class: is this answer to the question correct?

    python choices.py OUT FILE...

FILE... is as for records.py, and train, valid and test are divided as there. Writes train.tsv,
dev.tsv (valid) and test.tsv to the new folder OUT, for `examples/glue/prepare.sh own OUT`.

The first sentence is the question, the utterance it is about and the dialogue, the second one of
the choices; the class is correct or wrong.
"""

import argparse
import sys
import zipfile
import zlib
from pathlib import Path

from records import QUERY, BadInputError, divide, one_line, read

HEADER = "sentence1\tsentence2\tlabel\n"
TABLES = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}


def as_rows(question: dict) -> list[str]:
    """A line of the table for each choice.

    Raises:
        IndexError: a correct answer that is not among the choices.
    """
    choices = question["Choices"]
    correct = {range(len(choices))[i] for i in question["Correct Answers"]}
    first = one_line(f"{QUERY.format(**question)} {' '.join(question['Dialogue'])}")
    return [
        f"{first}\t{one_line(choice)}\t{'correct' if i in correct else 'wrong'}\n"
        for i, choice in enumerate(choices)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    try:
        sets = divide(read(args.files), as_rows)
    except (OSError, EOFError, zlib.error, BadInputError, zipfile.BadZipFile) as error:
        sys.exit(f"choices.py: {', '.join(map(str, args.files))}: {error}; give other files")
    args.out.mkdir(parents=True)
    for split, questions in sets.items():
        rows = [row for question in questions for row in question]
        (args.out / TABLES[split]).write_text(HEADER + "".join(rows), encoding="utf-8")
        print(f"{split}: {len(rows)} choices of {len(questions)} questions")


if __name__ == "__main__":
    main()
