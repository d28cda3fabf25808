"""examples/glue/prepare.sh: questions with answers, sentences with classes; offline."""

import gzip
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest
from fairseq import tasks
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig
from fairseq.tasks.sentence_prediction import SentencePredictionConfig
from fairseq.tasks.span_masked_lm import SpanMaskedLMConfig
from fairseq.tasks.translation import TranslationConfig

from pet_fairseq.pretrained.importer import import_model
from tests.cli.processes import BIN
from tests.cli.shell import refuses, sh
from tests.pretrained.bert import write_bert

pytestmark = pytest.mark.slow

RECIPE = "examples/glue/prepare.sh"
ENTAILS = "Sentence 1: {} Sentence 2: {} Does sentence 1 entails sentence 2?"
ALIKE = "paraphrase of each other?"
QUESTIONS = {
    "mnli": ENTAILS,
    "qnli": "Question: {} Sentence: {} Does the sentence contains the answer to the question?",
    "qqp": f"Question 1: {{}} Question 2: {{}} Are the two questions {ALIKE}",
    "rte": ENTAILS,
    "sst2": "Sentence: {} Does this sentence express positive or negative emotions?",
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
    "mrpc": {"0": ("not_equivalent", "No"), "1": ("equivalent", "Yes")},
}
HEADERS = {
    "mnli": "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
    "sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label",
    "qnli": "index question sentence label",
    "qqp": "id qid1 qid2 question1 question2 is_duplicate",
    "rte": "index sentence1 sentence2 label",
    "sst2": "sentence label",
    "mrpc": "Quality,#1 ID,#2 ID,#1 String,#2 String",
}
COLUMNS = {
    "qnli": ("question", "sentence"),
    "qqp": ("question1", "question2"),
    "sst2": ("sentence",),
    "mrpc": ("#1 String", "#2 String"),
}
LABELS = {"mnli": "gold_label", "qqp": "is_duplicate", "mrpc": "Quality"}
ARCHIVES = {
    "mnli": "MNLI.zip",
    "qnli": "QNLIv2.zip",
    "qqp": "QQP-clean.zip",
    "rte": "RTE.zip",
    "sst2": "SST-2.zip",
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
    lines = ["\t".join(header)]
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


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    """No known sizes, output in a folder of its own."""
    names = [*ARCHIVES.values(), "mrpc_dev_ids.tsv"]
    names += ["msr_paraphrase_train.txt", "msr_paraphrase_test.txt"]
    (tmp_path / "expected").write_text("".join(f"{name} -\n" for name in names))
    return {"EXPECTED": str(tmp_path / "expected"), "OUT": str(tmp_path / "out")}


@pytest.mark.paper
@pytest.mark.parametrize("task", QUESTIONS)
def test_dry_run_prints_commands_and_writes_nothing(task, tmp_path):
    env = {"OUT": str(tmp_path / "out"), "DRY_RUN": "1"}
    out = sh(RECIPE, task, **env, RAW_TEXT="some.txt").stdout
    commands = {line.split()[1] for line in out.splitlines() if line.startswith("+ ")}
    assert {"curl", "subword-nmt", "fairseq-preprocess"} <= commands and "tokenise.py" in out
    path = f"{BIN}:{os.environ['PATH']}"
    assert all(shutil.which(command, path=path) for command in commands)
    name = ARCHIVES.get(task, "mrpc_dev_ids.tsv")
    assert f"https://dl.fbaipublicfiles.com/glue/data/{name}" in out
    assert ("input1" in out) == (task != "sst2") and "raw_text.tmp" in out
    assert not list(tmp_path.iterdir())
    only = sh(RECIPE, task, **env, STAGES="text").stdout
    assert "--target-lang answer" in only and "curl" not in only and "input0" not in only


# Formats


@pytest.mark.parametrize("task", ARCHIVES)
def test_archives(task, env, tmp_path):
    """What a download brings: dev is the test set, a part of train is for validation."""
    train, dev = draw_rows(task, 1000, 1), draw_rows(task, 9, 2)
    name = "dev_matched" if task == "mnli" else "dev"
    members = {"train.tsv": table(task, train), f"{name}.tsv": table(task, dev)}
    members["test.tsv"] = "index\tsentence\n0\twithout a label\n"
    pack(tmp_path / "public" / ARCHIVES[task], {f"X/{name}": t for name, t in members.items()})
    sh(RECIPE, task, **env, MIRROR=f"file://{tmp_path}/public", STAGES="raw")
    kept, valid = hold_out(train)
    assert 200 <= len(valid) < 450
    assert is_raw(tmp_path / "out/raw", task, {"train": kept, "valid": valid, "test": dev})


def test_every_20th_sentence_of_many_is_for_validation(env, tmp_path):
    train, dev = draw_rows("sst2", 7000, 1), draw_rows("sst2", 3, 2)
    (tmp_path / "train.tsv").write_text(table("sst2", train))
    (tmp_path / "dev.tsv").write_text(table("sst2", dev))
    sh(RECIPE, "sst2", tmp_path, **env, STAGES="raw")
    kept, valid = hold_out(train)
    assert 300 < len(valid) < 400
    assert is_raw(tmp_path / "out/raw", "sst2", {"train": kept, "valid": valid, "test": dev})


@pytest.mark.parametrize(("count", "held_out"), [(3, 1), (799, 266), (800, 200)])
def test_200_sentences_are_for_validation_if_there_are_enough(count, held_out, env, tmp_path):
    rows = [((f"sentence {number}",), "1") for number in range(count)]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(table("sst2", rows))
    sh(RECIPE, "sst2", tmp_path, **env, STAGES="raw")
    assert len(lines(tmp_path / "out/raw/valid.label")) == held_out
    assert len(lines(tmp_path / "out/raw/train.label")) == count - held_out


def test_three_gzipped_tables_with_labels(env, tmp_path):
    sets = {
        split: draw_rows("sst2", 20, seed) for seed, split in enumerate(("train", "dev", "test"))
    }
    for split, rows in sets.items():
        text = table("sst2", rows).replace("\n", "\r\n") if split == "dev" else table("sst2", rows)
        (tmp_path / f"{split}.tsv.gz").write_bytes(gzip.compress(text.encode()))
    sh(RECIPE, "sst2", tmp_path, **env, STAGES="raw")
    sets["valid"] = sets.pop("dev")
    assert is_raw(tmp_path / "out/raw", "sst2", sets)


def pair(number: int, text: str, hypothesis: str, label: str) -> str:
    return f'<pair id="{number}" {label}>\n\t<t>{text}</t>\n\t<h>{hypothesis}</h>\n</pair>\n'


def rte_xml(pairs: list[str]) -> str:
    start = '<?xml version="1.0" encoding="UTF-8"?>\n<entailment-corpus>\n'
    return start + "".join(pairs) + "</entailment-corpus>\n"


def test_rte_in_xml(env, tmp_path):
    """Development sets are for training; the label has another name in each challenge."""
    values = ['value="TRUE"', 'value="FALSE"', 'entailment="YES"', 'entailment="NO"']
    values += ['entailment="UNKNOWN"', 'entailment="CONTRADICTION"', 'entailment="ENTAILMENT"']
    yes = ("TRUE", "YES", "ENTAILMENT")
    files, sets = {}, {"dev": [], "test": []}
    for name in ("rte1_dev", "rte2_dev", "rte1_test"):
        pairs = []
        for number, value in enumerate(values * 2):
            text, hypothesis = f"{name} text {number}", f"it &amp;\nis {number}"
            pairs.append(pair(number, text, hypothesis, value))
            label = "entailment" if value.split('"')[1] in yes else "not_entailment"
            sets[name[5:]].append(((text, f"it & is {number}"), label))
        files[f"rte/{name}.xml"] = rte_xml(pairs)
    pack(tmp_path / "rte.zip", files)
    sh(RECIPE, "rte", tmp_path, **env, STAGES="raw")
    train, valid = hold_out(sets["dev"])
    assert len(valid) == 14
    assert is_raw(
        tmp_path / "out/raw", "rte", {"train": train, "valid": valid, "test": sets["test"]}
    )


@pytest.mark.parametrize("numbered", [True, False])
def test_mrpc(numbered, env, tmp_path):
    """With the numbers of GLUE's dev set that is the test set, without them MRPC's own."""
    rows, own_test = draw_rows("mrpc", 60, 1), draw_rows("mrpc", 7, 2)
    path = tmp_path / "msr_paraphrase_train.txt"
    path.write_text("\ufeff" + table("mrpc", rows).replace("\n", "\r\n"), newline="")
    dev = range(0, 60, 9)
    if numbered:
        text = "".join(f"1{number}\t2{number}\n" for number in dev)
        (tmp_path / "mrpc_dev_ids.tsv").write_text(text)
    (tmp_path / "msr_paraphrase_test.txt").write_text(table("mrpc", own_test))
    sh(RECIPE, "mrpc", tmp_path, **env, STAGES="raw")
    test = [rows[number] for number in dev] if numbered else own_test
    train, valid = hold_out([row for i, row in enumerate(rows) if i not in dev or not numbered])
    assert is_raw(tmp_path / "out/raw", "mrpc", {"train": train, "valid": valid, "test": test})


# All stages


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A task with pairs and three classes, and text to pre-train on."""
    folder = tmp_path_factory.mktemp("mnli")
    (folder / "train.tsv").write_text(table("mnli", draw_rows("mnli", 60, 1)))
    (folder / "dev_matched.tsv").write_text(table("mnli", draw_rows("mnli", 9, 2)))
    for name, size in (("one", 150), ("two", 95)):
        texts = [f"{name}  text\u2028{n} <s>\n{' ' * (n % 2)}\n" for n in range(size)]
        (folder / name).write_text("".join(texts))
    env = {"OUT": str(folder / "out"), "BPE_MERGES": "60"}
    sh(RECIPE, "mnli", folder, **env, RAW_TEXT=f"{folder}/one:{folder}/two")
    return folder / "out"


def test_one_dictionary_for_all_forms(prepared):
    names = "text/dict.text text/dict.answer classes/input0/dict classes/input1/dict raw_text/dict"
    text = (prepared / "dict.txt").read_text()
    assert all((prepared / f"{name}.txt").read_text() == text for name in names.split())
    words = [line.split(" ") for line in text.splitlines()]
    assert words[-100:] == [[f"<sentinel:{i}>", "0"] for i in range(99, -1, -1)]
    counts: dict[str, int] = {}
    for path in (prepared / "bpe").glob("train.*"):
        for word in path.read_text().split():
            counts[word] = counts.get(word, 0) + 1
    expected = sorted(counts, key=lambda word: (-counts[word], word))
    assert words[:-100] == [[word, str(counts[word])] for word in expected]
    assert {path.name for path in (prepared / "bpe").glob("train.*")} == {
        *("train.text", "train.answer", "train.sentence1", "train.sentence2", "train.raw_text")
    }


def words_of(dictionary: Dictionary, ids) -> str:
    return dictionary.string(ids, bpe_symbol="subword_nmt")


def test_sentence_prediction_reads_the_classes(prepared):
    config = SentencePredictionConfig(
        data=str(prepared / "classes"), num_classes=3, no_shuffle=True, seed=1
    )
    config.regression_target = False
    task = tasks.sentence_prediction.SentencePredictionTask.setup_task(config)
    order = ["contradiction", "entailment", "neutral"]
    for split in ("train", "valid", "test"):
        data = task.load_dataset(split)
        labels = lines(prepared / f"raw/{split}.label")
        assert [int(data[i]["target"]) for i in range(len(data))] == [*map(order.index, labels)]
    data = task.load_dataset("train")
    ids = [data[i]["net_input.src_tokens"] for i in range(len(data))]
    sides = (lines(prepared / f"tok/train.sentence{n}") for n in (1, 2))
    assert [words_of(task.dictionary, row) for row in ids] == [*map(" ".join, zip(*sides))]


def test_translation_reads_the_questions(prepared):
    config = TranslationConfig(
        data=str(prepared / "text"), source_lang="text", target_lang="answer"
    )
    config.left_pad_source, config.train_subset, config.dataset_impl = True, "train", None
    config.required_seq_len_multiple = 1
    task = tasks.translation.TranslationTask.setup_task(config)
    task.load_dataset("train")
    data = task.datasets["train"]
    sources = [words_of(task.source_dictionary, data[i]["source"]) for i in range(len(data))]
    targets = [words_of(task.target_dictionary, data[i]["target"]) for i in range(len(data))]
    assert sources == lines(prepared / "tok/train.text")
    assert targets == lines(prepared / "raw/train.answer")
    assert sources[0].startswith("Sentence 1 : x") and sources[0].endswith("sentence 2 ?")


def test_pre_training_reads_the_raw_text(prepared):
    texts = [f"one text {n} &lt; s &gt;" for n in range(150)]
    texts += [f"two text {n} &lt; s &gt;" for n in range(95)]
    assert lines(prepared / "tok/valid.raw_text") == texts[99::100]
    assert lines(prepared / "tok/train.raw_text") == texts[:99] + texts[100:199] + texts[200:]

    data = str(prepared / "raw_text")
    span = tasks.span_masked_lm.SpanMaskedLMTask.setup_task(
        SpanMaskedLMConfig(data=data, tokens_per_sample=60, seed=1, dataset_impl=None)
    )
    span.load_dataset("valid")
    item = span.datasets["valid"][0]
    source, target = (
        words_of(span.dictionary, item[side]).split() for side in ("source", "target")
    )
    assert "<sentinel:0>" in source and "<sentinel:0>" in target

    masked = tasks.masked_lm.MaskedLMTask.setup_task(MaskedLMConfig(data=data))
    classes = tasks.sentence_prediction.SentencePredictionTask.setup_task(
        SentencePredictionConfig(
            data=str(prepared / "classes"), num_classes=3, regression_target=False
        )
    )
    assert masked.dictionary == classes.dictionary
    assert masked.dictionary.symbols == [*span.dictionary.symbols, "<mask>"]


def test_other_settings_and_another_task_need_another_folder(prepared):
    env = {"OUT": str(prepared), "BPE_MERGES": "60"}
    refuses(sh(RECIPE, "mnli", check=False, **env), prepared, "other settings", "another folder")
    refuses(sh(RECIPE, "rte", check=False, **env), prepared, "holds mnli, not rte", "OUT")


# Bad input


def test_bad_tables(env, tmp_path):
    good = {
        "train": table("sst2", draw_rows("sst2", 50, 1)),
        "dev": table("sst2", draw_rows("sst2", 5, 2)),
    }

    def bad(name, text, *texts):
        for split, content in {**good, name: text}.items():
            (tmp_path / f"{split}.tsv").write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        refuses(
            sh(RECIPE, "sst2", tmp_path, check=False, **env, STAGES="raw"), f"{name}.tsv", *texts
        )
        assert not list((tmp_path / "out").glob("raw*"))

    bad("train", good["train"].replace("label", "sense", 1), "no column label", "sentence, sense")
    bad("train", good["train"] + "a sentence\t2\n", "line 52: label '2'", "not one of 0, 1")
    bad("dev", good["dev"] + "cut\n", "line 7 has 1 columns, the header 2")
    bad("dev", "", "no column sentence")
    bad("dev", "sentence\tlabel\n", "no examples for test")
    bad("train", "sentence\tlabel\nx\t1\n", "no examples for valid")
    bad("train", good["train"].encode("utf-16"), "not UTF-8 at byte 0")


def test_a_few_broken_lines_are_left_out(env, tmp_path):
    rows = draw_rows("qqp", 2500, 1)
    text = table("qqp", rows) + "1\t2\t3\ta question that\nis cut\t0\n"
    (tmp_path / "train.tsv").write_text(text)
    (tmp_path / "dev.tsv").write_text(table("qqp", rows[:5]))
    shown = sh(RECIPE, "qqp", tmp_path, **env, STAGES="raw").stdout
    assert "train.tsv: 2 broken lines left out, the first is 2502" in shown
    train, valid = hold_out(rows)
    assert is_raw(tmp_path / "out/raw", "qqp", {"train": train, "valid": valid, "test": rows[:5]})


def test_bad_archives(env, tmp_path):
    archive = tmp_path / "rte.zip"

    def bad(task, members, *texts):
        pack(archive, members)
        refuses(sh(RECIPE, task, tmp_path, check=False, **env, STAGES="raw"), archive.name, *texts)
        assert not list((tmp_path / "out").glob("raw*"))

    good = {"a_dev.xml": rte_xml([pair(1, "t", "h", 'value="TRUE"')] * 3)}
    bad("rte", good, "no *_test.xml")
    bad("rte", {**good, "a_test.xml": "<corpus><pair>"}, "a_test.xml", "not XML")
    bad(
        "rte",
        {**good, "a_test.xml": rte_xml([pair(7, "t", "h", 'value="MAYBE"')])},
        "pair 7",
        "MAYBE",
    )
    bad(
        "rte",
        {**good, "a_test.xml": rte_xml([pair(7, "t", "", 'value="TRUE"')])},
        "pair 7",
        "no text",
    )
    bad("rte", {"README": "empty"}, "no train.tsv")
    archive.write_bytes(archive.read_bytes()[:-30])
    refuses(sh(RECIPE, "rte", tmp_path, check=False, **env), archive, "damaged or cut short")
    public = sh(RECIPE, "rte", check=False, **env, MIRROR=f"file://{tmp_path}/none")
    refuses(public, "none/RTE.zip: download failed", "local folder")
    archive.rename(tmp_path / "RTE.zip")
    env.pop("EXPECTED")
    refuses(sh(RECIPE, "rte", tmp_path, check=False, **env), "bytes, expected 697150")
    assert not list((tmp_path / "out").rglob("*.zip*"))


def test_bad_arguments(env, tmp_path):
    refuses(sh(RECIPE, check=False, **env), "TASK ''", "sst2 or mrpc")
    refuses(sh(RECIPE, "cola", check=False, **env), "TASK 'cola'")
    refuses(sh(RECIPE, "sst2", tmp_path / "none", check=False, **env), "none: no such folder")
    result = sh(RECIPE, "mnli", tmp_path, check=False, **env)
    refuses(result, f"{tmp_path}: ", "MNLI.zip", "train.tsv and dev_matched.tsv")
    refuses(sh(RECIPE, "rte", tmp_path, check=False, **env), "RTE.zip", "rte.zip", "dev.tsv")


def test_bad_raw_text(env, tmp_path):
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(table("sst2", draw_rows("sst2", 9, 1)))

    def bad(content, *texts):
        (tmp_path / "text").write_bytes(content)
        result = sh(RECIPE, "sst2", tmp_path, check=False, **env, RAW_TEXT=f"{tmp_path}/text")
        refuses(result, tmp_path / "text", *texts)

    bad(b"a line\n" * 200 + b"\xff\n", "not UTF-8", "convert")
    bad(b"a line\n\n" * 99, "99 lines, fewer than 100")
    assert not list((tmp_path / "out/plain").iterdir())
    result = sh(RECIPE, "sst2", tmp_path, check=False, **env, RAW_TEXT=f"{tmp_path}/text:none")
    refuses(result, "RAW_TEXT: none: no such file")


def test_the_words_of_a_bert(env, tmp_path):
    write_bert(tmp_path / "bert")
    import_model(tmp_path / "bert", tmp_path / "imported")
    rows = [
        ((text,), str(i % 2))
        for i, text in enumerate(["A GOOD film,\u2028good.", "Bad [SEP] x"] * 2)
    ]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text(table("sst2", rows))
    (tmp_path / "text").write_text("a film.\n" * 100)
    sh(RECIPE, "sst2", tmp_path, **env, BERT=tmp_path / "imported", RAW_TEXT=tmp_path / "text")
    out = tmp_path / "out"
    assert lines(out / "bpe/test.sentence1")[:2] == ["a good film , good .", "bad [SEP] [UNK]"]
    ours = Dictionary.load(str(out / "classes/input0/dict.txt"))
    assert ours.symbols == Dictionary.load(str(tmp_path / "imported/dict.txt")).symbols
    assert lines(out / "bpe/valid.raw_text") == ["a film ."]
    wrong = sh(
        RECIPE, "sst2", tmp_path, **{**env, "OUT": str(tmp_path / "o")}, BERT="none", check=False
    )
    refuses(wrong, "BERT: none/dict.txt: no such file")
