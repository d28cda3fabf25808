"""Checkpoints of fairseq's multilingual tasks as bilingual models: the task's own distributions."""

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.checkpoints.saving import new_state, save_state
from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.bilingual import write_bilingual
from tests.cli.processes import preprocess, write_text

MULTI = ("--task", "translation_multi_simple_epoch", "--lang-pairs", "de-en,en-de")
MULTI = (*MULTI, "--langs", "de,en,fi", "--sampling-method", "temperature")
MBART = ("--task", "translation_from_pretrained_bart", "--langs", "de,en,fi")
SMALL = (
    *("--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--encoder-ffn-embed-dim", "24"),
    *("--decoder-ffn-embed-dim", "24", "--encoder-layers", "2", "--decoder-layers", "2"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2", "--dropout", "0"),
)
TINY = ("--arch", "transformer_tiny", *SMALL)
CASES = {
    "source and target": (*MULTI, "--encoder-langtok", "src", "--decoder-langtok", *TINY),
    "target in the source": (*MULTI, "--encoder-langtok", "tgt", *TINY),
    "target only": (*MULTI, "--decoder-langtok", *TINY),
    "m2m_100": (
        *(*MULTI, "--encoder-langtok", "src", "--decoder-langtok", *TINY),
        *("--share-all-embeddings", "--encoder-normalize-before", "--decoder-normalize-before"),
    ),
    "mbart's names": (
        *(*MULTI, "--encoder-langtok", "src", "--decoder-langtok", "--lang-tok-style", "mbart"),
        *TINY,
    ),
    "in place of </s>": (
        *(*MULTI, "--encoder-langtok", "src", "--decoder-langtok", *TINY),
        "--lang-tok-replacing-bos-eos",
    ),
    "mbart": (*MBART, "--arch", "mbart_base", *SMALL, "--layernorm-embedding"),
    "right-padded": (
        *(*MULTI, "--encoder-langtok", "src", "--decoder-langtok", *TINY),
        *("--left-pad-source", "False"),
    ),
}


@pytest.fixture(scope="session")
def data(once):
    """Binary data with one dictionary for both languages, without language tokens."""

    def fill(folder):
        write_text(folder / "raw", {"train": 20, "valid": 12, "test": 12})
        preprocess(folder / "raw", folder / "bin", "--joined-dictionary")

    return once("multilingual_data", fill) / "bin"


def parse(data, *words):
    parser = options.get_training_parser()
    words = (str(data), *words, "--criterion", "cross_entropy", "--source-lang", "de")
    return options.parse_args_and_arch(parser, [*words, "--target-lang", "en"])


def checkpoint(data, folder, case):
    """A random model of fairseq's task, the file of its checkpoint, and the task."""
    torch.manual_seed(1)
    args = parse(data, *CASES[case])
    task = tasks.setup_task(args)
    model = task.build_model(args)
    task.args = args  # without them fairseq's task for mBART cannot load its data
    trained = parse(data, *CASES[case])  # setting up the task has changed the other one
    trained.source_lang = trained.target_lang = None  # as of a training on several pairs
    cfg = OmegaConf.to_container(convert_namespace_to_omegaconf(trained), enum_to_str=True)
    history = [{"optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    save_state(new_state(cfg, model.state_dict(), history, {}), folder / "multilingual.pt")
    return model.eval(), folder / "multilingual.pt", task


def batches(task):
    task.load_dataset("test")
    dataset = task.dataset("test")
    return [dataset.collater([dataset[i] for i in some]) for some in ((0, 3, 5), (1, 2, 4, 6))]


@pytest.mark.parametrize("case", CASES)
def test_the_distributions_of_its_own_task(case, data, tmp_path):
    theirs, path, task = checkpoint(data, tmp_path, case)
    write_bilingual(str(path), "de", "en", tmp_path / "de_en")
    ours, plain = load_model(str(tmp_path / "de_en"), "CHECKPOINT")
    assert type(plain) is TranslationTask
    assert plain.source_dictionary == task.source_dictionary
    for given, expected in zip(batches(plain), batches(task)):
        found = ours(**given["net_input"])
        wanted = theirs(**expected["net_input"])
        found, wanted = (
            model.get_normalized_probs(output, log_probs=True)
            for model, output in ((ours, found), (theirs, wanted))
        )
        for target, words, row, of_sentence in zip(
            given["target"], expected["target"], found, wanted
        ):
            target, words = (t[t.ne(plain.target_dictionary.pad())] for t in (target, words))
            first = words.tolist().index(target[0].item())
            assert words[first:][: len(target)].tolist()[:-1] == target.tolist()[:-1]
            torch.testing.assert_close(
                row[: len(target)], of_sentence[first:][: len(target)], rtol=1e-5, atol=1e-5
            )


def test_data_is_found_beside_it(data, tmp_path):
    """Both directions read the same files, whose numbers stay right."""
    _, path, _ = checkpoint(data, tmp_path, "m2m_100")
    line = write_bilingual(str(path), "en", "de", tmp_path / "en_de")
    assert line.endswith("data: test, train, valid")
    _, plain = load_model(str(tmp_path / "en_de"), "CHECKPOINT")
    plain.load_dataset("test")
    text = plain.target_dictionary.string(plain.dataset("test")[0]["target"])
    assert text == (data.parent / "raw/test.de").read_text().splitlines()[0]


@pytest.mark.parametrize("language", ["sv", "de_DE", ""])
def test_a_language_that_it_does_not_know(language, data, tmp_path):
    _, path, _ = checkpoint(data, tmp_path, "m2m_100")
    for pair, option in (((language, "en"), "--source-lang"), (("en", language), "--target-lang")):
        with pytest.raises(UserError) as error:
            write_bilingual(str(path), *pair, tmp_path / "out")
        expected = f"{option} {language}: {path} does not know it; its languages are de, en, fi"
        assert str(error.value) == expected
    assert not (tmp_path / "out").exists()


def test_languages_in_a_file(data, tmp_path):
    """The one of --lang-dict; if it is not where it was, the one beside the checkpoint."""
    _, path, _ = checkpoint(data, tmp_path, "m2m_100")
    state = torch.load(path, weights_only=False)
    state["cfg"]["task"].langs = None
    state["cfg"]["task"].lang_dict = str(tmp_path / "moved/langs.txt")
    torch.save(state, path)
    with pytest.raises(UserError, match=r"moved/langs.txt: no such file, .* beside the checkpoint"):
        write_bilingual(str(path), "de", "en", tmp_path / "out")
    (tmp_path / "langs.txt").write_text("de\nen\nfi\n")
    write_bilingual(str(path), "de", "en", tmp_path / "out")
    with pytest.raises(UserError, match="its languages are de, en, fi"):
        write_bilingual(str(path), "de", "sv", tmp_path / "other")


def test_one_language_twice(data, tmp_path):
    _, path, _ = checkpoint(data, tmp_path, "m2m_100")
    with pytest.raises(UserError, match="--target-lang en: is the --source-lang too; give two"):
        write_bilingual(str(path), "en", "en", tmp_path / "out")


def test_other_dictionaries(data, tmp_path):
    _, path, _ = checkpoint(data, tmp_path, "m2m_100")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/dict.de.txt").write_text("a 1\n")
    (tmp_path / "other/dict.en.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=r"--data .*dict.de.txt: 8 words with the language tokens"):
        write_bilingual(str(path), "de", "en", tmp_path / "out", str(tmp_path / "other"))
    state = torch.load(path, weights_only=False)
    state["cfg"]["task"].data = str(tmp_path / "gone")
    torch.save(state, tmp_path / "gone.pt")
    with pytest.raises(UserError, match=r"--data: .*gone/dict.de.txt is not there; give the"):
        write_bilingual(str(tmp_path / "gone.pt"), "de", "en", tmp_path / "out")
    write_bilingual(str(tmp_path / "gone.pt"), "de", "en", tmp_path / "out", str(data))
    with pytest.raises(UserError, match=r"--out .*: is there already; give a new folder"):
        write_bilingual(str(path), "de", "en", tmp_path / "out")
