"""Shortlists: the pieces that belong together, and what CTranslate2 does with them."""

import random

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import chi2_contingency

from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.export.shortlist import ALWAYS, FILE, likeliest, log_likelihood_ratio
from pet_fairseq.predict.batches import BatchLimit
from pet_fairseq.predict.ctranslate2 import load_engine, translate_tokens
from tests.translation import make_task, save_model, write_subset

NUMBER = 3 * ALWAYS
WORDS = [f"w{i}" for i in range(NUMBER)]
NAMES = ("embed_dim", "ffn_embed_dim")
SIZES = {f"{stack}_{name}": 16 for stack in ("encoder", "decoder") for name in NAMES}
# what fairseq-train takes from options of the data set
DATASET = {"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1}


@pytest.mark.parametrize("seed", range(20))
def test_log_likelihood_ratio(seed):
    """Against scipy's G test of the same table."""
    draw = random.Random(seed)
    both, only_first, only_second, neither = (draw.randint(0, 30) for _ in range(4))
    first, second = both + only_first, both + only_second
    pairs = first + only_second + neither
    ratio = log_likelihood_ratio(*map(np.array, (both, first, second)), pairs)
    table = np.array([[both, only_first], [only_second, neither]])
    if not (table.sum(0).all() and table.sum(1).all()):
        assert ratio == pytest.approx(0, abs=1e-9)  # what always or never stands says nothing
        return
    expected = chi2_contingency(table, correction=False, lambda_="log-likelihood")[0] / 2
    assert abs(ratio) == pytest.approx(expected, abs=1e-9)
    assert (ratio >= -1e-9) == (both * pairs >= first * second)


def test_translations_are_found():
    """Each source piece has two translations, of which one stands with it, in noise."""
    draw = np.random.default_rng(1)
    source = (draw.random((2000, 20)) < 0.2).astype(np.float32)
    second = draw.random(source.shape) < 0.3
    target = np.concatenate([source * ~second, source * second], axis=1)
    noise = draw.random(target.shape) < 0.1
    target = np.maximum(target, noise).astype(np.float32)
    found = likeliest(csr_matrix(source), csr_matrix(target), 2)
    assert [set(pieces.tolist()) for pieces in found] == [{i, i + 20} for i in range(20)]


@pytest.fixture
def saved(tmp_path):
    """A task with training pairs, and a model with random weights."""
    pytest.importorskip("ctranslate2")
    task = make_task(tmp_path / "data", WORDS, **DATASET)
    draw = random.Random(1)
    pairs = [[draw.randrange(4, 4 + NUMBER) for _ in range(draw.randint(1, 6))] for _ in range(400)]
    write_subset(tmp_path / "data", "train", pairs)
    return task, save_model(tmp_path / "model.pt", task, **SIZES)


def translate(folder, sentences):
    """The words of each translation, all of one length."""
    length = {"min_decoding_length": 12, "max_decoding_length": 12}
    found = translate_tokens(load_engine(folder), sentences, BatchLimit(1), **length)
    return [set(best.split()) for best, *_ in found]


def test_only_candidates_are_generated(saved, tmp_path):
    task, path = saved
    export(path, task.cfg.data, "ctranslate2", tmp_path / "out", shortlist=2)
    always, *lines = (tmp_path / "out" / FILE).read_text().splitlines()
    allowed = {word: set(words.split()) for word, words in (line.split("\t") for line in lines)}
    frequent = set(always.strip().split())
    assert len(frequent) == ALWAYS and max(map(len, allowed.values())) <= 3
    sentences = [[word] for word in WORDS[:40]]
    found = [translate(tmp_path / "out", [sentence])[0] for sentence in sentences]
    for sentence, words in zip(sentences, found):
        assert words <= frequent | allowed[sentence[0]] | {"<unk>"}
    export(path, task.cfg.data, "ctranslate2", tmp_path / "all")
    assert found != [translate(tmp_path / "all", [sentence])[0] for sentence in sentences]


def save_with_training_set(folder):
    """A task whose training set has few words, and the path of a model."""
    task = make_task(folder / "data", WORDS, **DATASET)
    write_subset(folder / "data", "train", [[4, 5], [6, 7]] * 20)
    return task, save_model(folder / "model.pt", task, **SIZES)


def test_every_part_of_the_training_set_counts(tmp_path):
    """As fairseq-train reads train1 after train."""
    pytest.importorskip("ctranslate2")
    task, path = save_with_training_set(tmp_path)
    last = task.source_dictionary.index(WORDS[-1])
    write_subset(tmp_path / "data", "train1", [[last - 1, last]] * 20)
    export(path, task.cfg.data, "ctranslate2", tmp_path / "out", shortlist=2)
    _, *lines = (tmp_path / "out" / FILE).read_text().splitlines()
    candidates = dict(line.split("\t") for line in lines)
    assert set(candidates[WORDS[-1]].split()) == {WORDS[-1], WORDS[-2]}


def test_every_data_folder_counts(tmp_path):
    """As fairseq-train reads that of the next epoch; all else is in the first."""
    pytest.importorskip("ctranslate2")
    task, path = save_with_training_set(tmp_path)
    last = task.source_dictionary.index(WORDS[-1])
    (tmp_path / "data" / "bpe.codes").write_text("#version: 0.2\nw 1</w>\n")
    (tmp_path / "more").mkdir()
    both = f"{tmp_path / 'data'}:{tmp_path / 'more'}"
    with pytest.raises(UserError, match=f"{tmp_path / 'more'}: holds no data"):
        export(path, both, "ctranslate2", tmp_path / "out", shortlist=2)
    write_subset(tmp_path / "more", "train", [[last - 1, last]] * 20)
    export(path, both, "ctranslate2", tmp_path / "out", shortlist=2)
    _, *lines = (tmp_path / "out" / FILE).read_text().splitlines()
    candidates = dict(line.split("\t") for line in lines)
    assert set(candidates[WORDS[-1]].split()) == {WORDS[-1], WORDS[-2]}
    assert set(candidates[WORDS[0]].split()) == {WORDS[0], WORDS[1]}
    assert (tmp_path / "out" / "bpe.codes").is_file()


def test_enough_candidates_change_nothing(saved, tmp_path):
    task, path = saved
    found = []
    for name, candidates in (("all", None), ("many", NUMBER)):
        export(path, task.cfg.data, "ctranslate2", tmp_path / name, shortlist=candidates)
        found.append(translate(tmp_path / name, [WORDS]))
    assert found[0] == found[1]


def test_wrong_options(saved, tmp_path):
    task, path = saved
    with pytest.raises(UserError, match="--shortlist 0: give 1 or more"):
        export(path, task.cfg.data, "ctranslate2", tmp_path / "out", shortlist=0)
    with pytest.raises(UserError, match="--shortlist: only for --to ctranslate2"):
        export(path, task.cfg.data, "fairseq", tmp_path / "out", shortlist=2)
    for file in (tmp_path / "data").glob("train.*"):
        file.unlink()
    with pytest.raises(UserError, match="holds no data; give a folder made by"):
        export(path, task.cfg.data, "ctranslate2", tmp_path / "out", shortlist=2)
    assert not (tmp_path / "out").exists()
