"""CICERO's choices as sentences with a class: is this answer to the question correct?

    python choices.py OUT FILE...

FILE... is as for records.py, and train, valid and test are divided as there. Writes train.tsv,
dev.tsv (valid) and test.tsv to the new folder OUT, for `examples/glue/prepare.sh own OUT`.

The first sentence is the question, the utterance it is about and the dialogue, the second one of
the choices; the class is correct or wrong.
"""

from records import QUERY, one_line, read_arguments

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
    out, sets = read_arguments(__doc__, as_rows)
    for split, questions in sets.items():
        rows = [row for question in questions for row in question]
        (out / TABLES[split]).write_text(HEADER + "".join(rows), encoding="utf-8")
        print(f"{split}: {len(rows)} choices of {len(questions)} questions")


if __name__ == "__main__":
    main()
