"""The task pet_sentence_prediction: fairseq's sentences in batches of similar lengths."""

import random
import shutil

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.tasks.sentence_prediction import SentencePredictionTask

from pet_fairseq.predict.task import PetSentencePredictionTask
from tests.predict.made import LABELS, classification_task

NUMBER = 300
MAX_TOKENS = 60


def write_split(folder, name, rows):
    builder = MMapIndexedDatasetBuilder(f"{folder / name}/train.bin")
    for row in rows:
        builder.add_item(torch.tensor(row))
    builder.finalize(f"{folder / name}/train.idx")


@pytest.fixture
def made(tmp_path):
    """fairseq's task with sentences of 1 to 12 words, of which every third one is very short."""
    task = classification_task(tmp_path)
    draw = random.Random(3)
    first, classes = task.label_dictionary.nspecial, len(LABELS)
    lengths = [draw.randint(1, 3 if i % 3 == 0 else 12) for i in range(NUMBER)]
    sentences = [[*(draw.randrange(4, 14) for _ in range(n)), 2] for n in lengths]
    write_split(tmp_path, "input0", sentences)
    write_split(tmp_path, "label", [[first + draw.randrange(classes), 2] for _ in sentences])
    return task


def batches(task, kind, seed=1, **options):
    """The first epoch of a training."""
    for name, value in {**options, "seed": seed}.items():
        setattr(task.cfg, name, value)
    task = kind(task.cfg, task.dictionary, task.label_dictionary)
    task.load_dataset("train")
    epochs = task.get_batch_iterator(task.datasets["train"], max_tokens=MAX_TOKENS, seed=seed)
    return list(epochs.next_epoch_itr())


def by_sentence(found):
    """Sentence's number -> its tokens and class."""
    return {
        int(number): (tokens[tokens != 1].tolist(), int(target))
        for batch in found
        for number, tokens, target in zip(
            batch["id"], batch["net_input"]["src_tokens"], batch["target"]
        )
    }


def padding(found):
    """The share of all positions."""
    tokens = torch.cat([batch["net_input"]["src_tokens"].flatten() for batch in found])
    return float((tokens == 1).float().mean())


def test_the_same_sentences_with_less_padding(made):
    theirs = batches(made, SentencePredictionTask)
    ours = batches(made, PetSentencePredictionTask)
    assert by_sentence(ours) == by_sentence(theirs) and len(by_sentence(ours)) == NUMBER
    assert padding(theirs) > 0.3 and padding(ours) < 0.05
    assert len(ours) < 0.8 * len(theirs)


def test_the_seed_chooses_among_sentences_of_a_length_and_the_order_of_batches(made):
    def order(seed):
        return [batch["id"].tolist() for batch in batches(made, PetSentencePredictionTask, seed)]

    first, again, other = order(1), order(1), order(2)
    assert first == again
    assert sorted(map(sorted, first)) != sorted(map(sorted, other))
    found = by_sentence(batches(made, PetSentencePredictionTask))
    longest = [len(sentence) for sentence, _ in found.values()]
    assert sorted(longest) not in (longest, longest[::-1])  # short and long batches come mixed


def test_the_first_batches_of_a_validation_are_of_all_lengths(made, tmp_path):
    """Of which --max-valid-steps takes some; they are the same in every epoch."""
    for name in ("input0", "label"):
        for kind in ("bin", "idx"):
            shutil.copy(tmp_path / name / f"train.{kind}", tmp_path / name / f"valid.{kind}")
    task = PetSentencePredictionTask(made.cfg, made.dictionary, made.label_dictionary)
    dataset = task.load_dataset("valid")

    def epoch(number):
        epochs = task.get_batch_iterator(dataset, max_tokens=MAX_TOKENS, seed=1, epoch=number)
        return list(epochs.next_epoch_itr(shuffle=False))

    lengths = [batch["net_input"]["src_tokens"].size(1) for batch in epoch(1)]
    assert lengths == [batch["net_input"]["src_tokens"].size(1) for batch in epoch(2)]
    some = lengths[: len(lengths) // 3]
    assert min(some) <= 4 and max(some) >= 11
    assert len(by_sentence(epoch(1))) == NUMBER and padding(epoch(1)) < 0.05


def test_no_shuffle_keeps_the_order_of_the_file(made):
    found = batches(made, PetSentencePredictionTask, no_shuffle=True)
    in_order = sorted(found, key=lambda batch: int(batch["id"][0]))
    assert [int(i) for batch in in_order for i in batch["id"]] == list(range(NUMBER))
