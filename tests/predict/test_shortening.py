"""What is cut of texts that are too long."""

import itertools

import pytest
import torch
from fairseq.data import (
    ConcatSentencesDataset,
    ListDataset,
    PrependTokenDataset,
    TruncateDataset,
)
from tokenizers import Tokenizer, models, pre_tokenizers

from pet_fairseq.predict.batches import batch_size, batches_by_length
from pet_fairseq.predict.classifier import Classifier
from pet_fairseq.predict.predictor import cut_longest
from pet_fairseq.predict.sentences import TextError, TextTooLongError
from pet_fairseq.predict.translator import Translator
from tests.predict.made import make_bart, make_classifier, make_translator
from tests.predict.test_predictor import answering


def test_the_longer_sentence_is_cut_first_as_by_the_library_tokenizers():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for first, second, room in itertools.product(range(9), range(9), range(1, 12)):
        tokenizer.enable_truncation(room, strategy="longest_first")
        ids = tokenizer.encode("a " * first, "b " * second).ids
        assert cut_longest([first, second], room) == [ids.count(0), ids.count(1)]
        assert cut_longest([first], room) == [min(first, room)]


def test_batches():
    lengths = [5, 1, 9, 2, 2, 30, 3]
    for most in (1, 6, 10, 40, 1000):
        batches = batches_by_length(lengths, most)
        assert sorted(itertools.chain(*batches)) == list(range(len(lengths)))
        ordered = [lengths[i] for batch in batches for i in batch]
        assert ordered == sorted(lengths)
        for batch, following in itertools.pairwise(batches):
            sizes = [lengths[i] for i in batch]
            assert len(sizes) == 1 or max(sizes) * len(sizes) <= most
            assert (len(sizes) + 1) * max(*sizes, lengths[following[0]]) > most
    assert batch_size(iter([7]), 1) == 1
    assert batches_by_length([], 10) == []


def words_of(task, length, offset):
    """So many words of a sentence as text, and as fairseq-preprocess stores it."""
    words = [f"w{(offset + i) % 10}" for i in range(length)]
    dictionary = task.source_dictionary
    ids = [*map(dictionary.index, words), dictionary.eos()]
    return " ".join(words), torch.tensor(ids)


@pytest.mark.parametrize("separator", [None, 2])
def test_as_fairseq_cuts_in_training(separator, tmp_path):
    """--shorten-method truncate: the first tokens of the text or pair."""
    made = make_classifier(tmp_path)
    model = answering(made, path=made.backbone)
    model.task.cfg.shorten_method = "truncate"
    model.task.cfg.separator_token = separator
    for first, second in ((50, 0), (38, 0), (39, 0), (20, 20), (30, 90), (60, 3), (18, 18)):
        texts, stored = zip(*(words_of(made.task, n, n) for n in (first, second) if n))
        data = [ListDataset([ids], [len(ids)]) for ids in stored]
        data[0] = PrependTokenDataset(data[0], 0)
        if len(data) == 2:
            if separator is not None:
                data[1] = PrependTokenDataset(data[1], separator)
            data = [ConcatSentencesDataset(*data)]
        whole = data[0][0]
        tokens, truncated = model.encode(texts)
        assert torch.equal(tokens, TruncateDataset(data[0], 40)[0])
        assert truncated == (len(whole) > 40)


def test_otherwise_the_marks_stay(tmp_path):
    made = make_classifier(tmp_path)
    model = answering(made, path=made.backbone)
    model.task.cfg.separator_token = 2
    (first, a), (second, b) = (words_of(made.task, n, n) for n in (30, 50))
    tokens, truncated = model.encode((first, second))
    assert truncated and isinstance(model, Classifier)
    room = 40 - len(["<s>", "</s>", "</s>", "</s>"])
    expected = [0, *a[: room // 2], 2, 2, *b[: room // 2], 2]
    assert tokens.tolist() == [int(number) for number in expected]
    tokens, truncated = model.encode((second,))
    assert truncated and tokens.tolist() == [0, *b[:38].tolist(), 2]


def test_bart_keeps_its_ends_and_reads_pairs_beside_single_texts(tmp_path):
    """A decoder's state at the last </s> is classified, and fairseq wants as many in each text."""
    made = make_bart(tmp_path)
    model = answering(made)
    model.task.cfg.separator_token = 2
    model.task.cfg.shorten_method = "truncate"
    texts = [("w1 w2",), ("w1", "w2"), ("w3 " * 50,), ("w4 " * 30, "w5 </s> w6 " * 20), ("w7",)]
    encoded = [model.encode(text) for text in texts]
    assert [text.truncated for text in encoded] == [False, False, True, True, False]
    ends = [text.tokens.tolist().count(2) for text in encoded]
    assert ends == [1, 3, 1, 3, 1] and all(text.tokens[-1] == 2 for text in encoded)
    alone = [model.answer([text.tokens], 2)[0]["probabilities"] for text in encoded]
    together = model.answer([text.tokens for text in encoded], 2)
    for answer, same in zip(together, alone):
        assert answer["probabilities"] == pytest.approx(same, abs=1e-5)


def test_translators_cut_what_training_cut(tmp_path):
    made = make_translator(tmp_path)
    model = answering(made)
    assert isinstance(model, Translator)
    most = model.max_tokens
    text, stored = words_of(made.task, most, 0)
    with pytest.raises(TextTooLongError, match=f"{most + 1} tokens, at most {most}"):
        model.encode((text,))
    made.task.cfg.truncate_source = True
    cutting = Translator(model.model, made.task, model.text)
    tokens, truncated = cutting.encode((text,))
    assert truncated and tokens.tolist() == [*stored[: most - 1].tolist(), 2]
    with pytest.raises(TextError, match="pair: this model translates single texts"):
        model.encode(("w1", "w2"))
