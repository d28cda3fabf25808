"""The binary data of GLUE's tasks, read by fairseq's own."""

import pytest
from fairseq import tasks
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig
from fairseq.tasks.sentence_prediction import SentencePredictionConfig
from fairseq.tasks.span_masked_lm import SpanMaskedLMConfig
from fairseq.tasks.translation import TranslationConfig

from pet_fairseq.huggingface.importer import import_model
from tests.cli.glue.tables import RECIPE, lines, table
from tests.cli.shell import refuses, sh
from tests.huggingface.bert import write_bert

pytestmark = pytest.mark.slow


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


def test_another_end_to_keep_needs_another_folder(prepared):
    env = {"OUT": str(prepared), "BPE_MERGES": "60"}
    env["RAW_TEXT"] = f"{prepared.parent}/one:{prepared.parent}/two"
    sh(RECIPE, "mnli", **env)  # all is done
    again = sh(RECIPE, "mnli", check=False, **env, KEEP_END="end")
    refuses(again, prepared, "other settings", "keep: end")


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
    # where `serve` and `predict` look for it: in the folder above the data
    assert (out / "tokenizer.json").read_text() == (
        tmp_path / "imported/tokenizer.json"
    ).read_text()
    wrong = sh(
        RECIPE, "sst2", tmp_path, **{**env, "OUT": str(tmp_path / "o")}, BERT="none", check=False
    )
    refuses(wrong, "BERT: none/dict.txt: no such file")
