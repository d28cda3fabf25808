"""GLUE's tables as a download has them, and what is to become of them."""

import random
import zipfile
from pathlib import Path

RECIPE = "examples/glue/prepare.sh"
ENTAILS = "Sentence 1: {} Sentence 2: {} Does sentence 1 entails sentence 2?"
ALIKE = "paraphrase of each other?"
QUESTIONS = {
    "mnli": ENTAILS,
    "qnli": "Question: {} Sentence: {} Does the sentence contains the answer to the question?",
    "qqp": f"Question 1: {{}} Question 2: {{}} Are the two questions {ALIKE}",
    "rte": ENTAILS,
    "sst2": "Sentence: {} Does this sentence express positive or negative emotions?",
    "cola": "Sentence: {} Is this sentence grammatically acceptable?",
    "mrpc": f"Sentence 1: {{}} Sentence 2: {{}} Are the two sentences {ALIKE}",
}
YES_NO = {"entailment": ("entailment", "Yes"), "not_entailment": ("not_entailment", "No")}
ANSWERS = {  # value in the table: class, answer
    "mnli": {
        "entailment": ("entailment", "Yes"),
        "neutral": ("neutral", "Maybe"),
        "contradiction": ("contradiction", "No"),
    },
    "qnli": YES_NO,
    "qqp": {"0": ("not_duplicate", "No"), "1": ("duplicate", "Yes")},
    "rte": YES_NO,
    "sst2": {"0": ("negative", "negative"), "1": ("positive", "positive")},
    "cola": {"0": ("unacceptable", "No"), "1": ("acceptable", "Yes")},
    "mrpc": {"0": ("not_equivalent", "No"), "1": ("equivalent", "Yes")},
}
HEADERS = {
    "mnli": "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
    "sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label",
    "qnli": "index question sentence label",
    "qqp": "id qid1 qid2 question1 question2 is_duplicate",
    "rte": "index sentence1 sentence2 label",
    "sst2": "sentence label",
    "cola": "source label mark sentence",
    "mrpc": "Quality,#1 ID,#2 ID,#1 String,#2 String",
}
COLUMNS = {
    "qnli": ("question", "sentence"),
    "qqp": ("question1", "question2"),
    "sst2": ("sentence",),
    "cola": ("sentence",),
    "mrpc": ("#1 String", "#2 String"),
}
LABELS = {"mnli": "gold_label", "qqp": "is_duplicate", "mrpc": "Quality"}
ARCHIVES = {
    "mnli": "MNLI.zip",
    "qnli": "QNLIv2.zip",
    "qqp": "QQP-clean.zip",
    "rte": "RTE.zip",
    "sst2": "SST-2.zip",
    "cola": "CoLA.zip",
}
Row = tuple[tuple[str, ...], str]  # sentences, value of the label


def draw_rows(task: str, count: int, seed: int) -> list[Row]:
    """Examples of a task; some share their first sentence."""
    draw = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        first = f"{'x' * draw.randint(1, 3)} first {seed}.{number}, {draw.choice(['a', 'b'])}."
        if rows and draw.random() < 0.3:
            first = rows[-1][0][0]
        second = f'"second"  {number}{{}} is {draw.choice(["good", "bad"])} '
        sentences = (first, second)[: QUESTIONS[task].count("{}")]
        rows.append((sentences, draw.choice(list(ANSWERS[task]))))
    return rows


def table(task: str, rows: list[Row], first_number: int = 0) -> str:
    """The rows in GLUE's table of the task."""
    header = HEADERS[task].split("," if "," in HEADERS[task] else " ")
    lines = [] if task == "cola" else ["\t".join(header)]
    for number, (sentences, label) in enumerate(rows, first_number):
        fields = dict.fromkeys(header, "-")
        fields |= zip(COLUMNS.get(task, ("sentence1", "sentence2")), sentences)
        fields |= {LABELS.get(task, "label"): label}
        fields |= {name: f"{name[1]}{number}" for name in ("#1 ID", "#2 ID") if name in fields}
        lines.append("\t".join(fields.values()))
    return "\n".join(lines) + "\n"


def pack(path: Path, members: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)


def hold_out(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Train and valid, by the README's rule."""
    firsts = list({row[0][0]: None for row in rows})
    step = 20
    while step > 2 and len(firsts) < 200 * step:
        step -= 1
    chosen = {first for number, first in enumerate(firsts, 1) if number % step == 0}
    train = [row for row in rows if row[0][0] not in chosen]
    return train, [row for row in rows if row[0][0] in chosen]


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def is_raw(folder: Path, task: str, sets: dict[str, list[Row]]) -> bool:
    """Whether the folder holds these examples, in both forms."""
    for split, rows in sets.items():
        texts = [tuple(" ".join(s.split()) for s in sentences) for sentences, _ in rows]
        meaning = [ANSWERS[task][label] for _, label in rows]
        expected = {
            "text": [QUESTIONS[task].format(*sentences) for sentences in texts],
            "answer": [answer for _, answer in meaning],
            "label": [name for name, _ in meaning],
        }
        for i in range(QUESTIONS[task].count("{}")):
            expected[f"sentence{i + 1}"] = [sentences[i] for sentences in texts]
        found = {path.suffix[1:]: lines(path) for path in folder.glob(f"{split}.*")}
        assert found == expected
    return True


def pair(number: int, text: str, hypothesis: str, label: str) -> str:
    return f'<pair id="{number}" {label}>\n\t<t>{text}</t>\n\t<h>{hypothesis}</h>\n</pair>\n'


def rte_xml(pairs: list[str]) -> str:
    start = '<?xml version="1.0" encoding="UTF-8"?>\n<entailment-corpus>\n'
    return start + "".join(pairs) + "</entailment-corpus>\n"
