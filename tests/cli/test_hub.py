"""`pet_fairseq.from_pretrained`: text in, text out."""

import shutil

import pytest
import torch

import pet_fairseq
from pet_fairseq.decoding.generator import FastGenerator
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.importer import import_model
from tests.byte_pieces import PIECES as BYTE_PIECES
from tests.byte_pieces import TEXT as BYTE_TEXT
from tests.byte_pieces import train
from tests.cli.processes import REPO, in_process, run
from tests.cli.test_pretrained import greedy
from tests.huggingface.llama import CONFIG, PIECES, write_llama
from tests.strict_device import DEVICE, strict_device
from tests.translation import load_task, save_another

TEXT = ["a1 a2 a3", "", "a0 unheard a5 a5"]
USER_DIR = ("--user-dir", REPO / "pet_fairseq", "--cpu")


def interactive(data, path, *options):
    """What fairseq-interactive says about TEXT."""
    command = ("fairseq-interactive", data, "--path", path, *USER_DIR, *options)
    result = run(*command, "-s", "de", "-t", "en", text_in="\n".join(TEXT) + "\n")
    return [text for _, _, text in result.printed("D")]


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_says_what_interactive_says(beam, student, teacher, data):
    for path in (student[0] / "checkpoint_best.pt", teacher):
        translator = pet_fairseq.from_pretrained(str(path), str(data))
        expected = interactive(data, path, "--beam", beam)
        assert translator.translate(TEXT, beam=beam) == expected
        assert translator.translate(TEXT[0], beam=beam) == expected[0]
    assert translator.translate([]) == []


def test_decodes_fast(student, data):
    path = str(student[0] / "checkpoint_best.pt")
    translator = pet_fairseq.from_pretrained(path, str(data))
    generator = translator.task.build_generator(translator.models, translator.cfg.generation)
    assert isinstance(generator, FastGenerator)


@pytest.mark.slow
def test_on_another_device(student, data):
    translator = pet_fairseq.from_pretrained(str(student[0] / "checkpoint_best.pt"), str(data))
    expected = translator.translate(TEXT, beam=3)
    with strict_device():
        assert translator.to(DEVICE).translate(TEXT, beam=3) == expected


def test_options_and_ensembles(student, teacher, data):
    paths = f"{student[0] / 'checkpoint_best.pt'}:{teacher}"
    translator = pet_fairseq.from_pretrained(paths, str(data), max_len_b=3, lenpen=0.2)
    expected = interactive(data, paths, "--max-len-b", "3", "--lenpen", "0.2")
    assert translator.translate(TEXT) == expected
    assert max(len(text.split()) for text in expected) <= 3


def test_finds_bpe_codes_and_tokenises(data, teacher, tmp_path):
    """Codes beside the data mean subword-nmt and Moses, as scripts/text/preprocess.sh does it."""
    folder = tmp_path / "data"
    folder.mkdir()
    for file in data.glob("dict.*"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "bpe.codes").write_text("#version: 0.2\na 1</w>\n")
    translator = pet_fairseq.from_pretrained(str(teacher), str(folder))
    assert translator.apply_bpe(translator.tokenize("a1, a2!")) == "a1 , a@@ 2 !"
    plain = pet_fairseq.from_pretrained(str(teacher), str(folder), segmentation="")
    assert plain.bpe is None and plain.tokenizer is None
    codes = str(folder / "bpe.codes")
    given = pet_fairseq.from_pretrained(str(teacher), str(data), codes, tokenizer="space")
    assert given.apply_bpe(given.tokenize("a1,  a2")) == "a@@ 1@@ , a@@ 2"


def test_pieces_of_bytes_become_characters(data, teacher, tmp_path):
    train(tmp_path / "spm.model")
    model = str(tmp_path / "spm.model")
    translator = pet_fairseq.from_pretrained(str(teacher), str(data), segmentation=model)
    assert translator.remove_bpe(BYTE_PIECES) == BYTE_TEXT


@pytest.mark.parametrize("piece", ["\u2581a1", "a1@@"])
def test_pieces_without_a_subword_model(piece, data, teacher, tmp_path):
    for file in data.glob("dict.*"):
        text = file.read_text().replace("a1 ", f"{piece} ", 1)
        (tmp_path / file.name).write_text(text)
    state = torch.load(teacher)
    state["cfg"]["task"] |= {"data": str(tmp_path), "source_lang": "de", "target_lang": "en"}
    torch.save(state, tmp_path / "model.pt")
    path = str(tmp_path / "model.pt")
    with pytest.raises(UserError, match="segmentation: the model's words are pieces, and there is"):
        pet_fairseq.from_pretrained(path)
    translator = pet_fairseq.from_pretrained(path, segmentation="")
    assert len(translator.translate([f"{piece} a2"], max_len_b=4)) == 1


def test_every_arch_of_translation(data, teacher, tmp_path):
    task = load_task(data)
    for arch in ("can_transformer", "deep_shallow_12_1", "pet_transformer_tiny"):
        sizes = {f"{stack}_layers": 2 for stack in ("encoder", "decoder")}
        save_another(tmp_path / "model.pt", teacher, task, arch, **sizes, **narrow(8))
        translator = pet_fairseq.from_pretrained(str(tmp_path / "model.pt"), str(data))
        assert len(translator.translate(TEXT, max_len_b=4)) == len(TEXT)


def narrow(width):
    sizes = {}
    for stack in ("encoder", "decoder"):
        sizes |= {f"{stack}_embed_dim": width, f"{stack}_ffn_embed_dim": width}
        sizes[f"{stack}_attention_heads"] = 2
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "start"), [("llama", "</s>"), ("llama", "<s>"), ("qwen3", "</s>")]
)
def test_a_language_model(kind, start, tmp_path):
    weights = write_llama(tmp_path / "hf", model_type=kind)
    import_model(tmp_path / "hf", tmp_path / "out")
    model = pet_fairseq.from_pretrained(str(tmp_path / "out"), add_bos_token=start == "<s>")
    token = CONFIG["eos_token_id"] if start == "</s>" else CONFIG["bos_token_id"]
    ids = [token, *(PIECES.index(piece) for piece in ("ab", "Ġa"))]
    words = greedy(weights, ids, 9).split()
    words = words if start == "</s>" else words[1:]
    expected = model.bpe.decode(" ".join(words))
    assert model.sample(["ab a"], max_len_b=8) == [expected]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"path": "no.pt"}, "path no.pt: no such file"),
        ({"data": "nowhere"}, "data nowhere: no such folder"),
        ({"segmentation": "no.codes"}, "segmentation no.codes: no such file"),
        ({"compression_ratio": 4}, "compression_ratio: neither this model nor its task nor"),
    ],
)
def test_wrong_arguments(arguments, message, teacher, data):
    with pytest.raises(UserError, match=message):
        pet_fairseq.from_pretrained(**{"path": str(teacher), "data": str(data), **arguments})


@pytest.mark.parametrize("language", ["de", "en"])
def test_dictionaries_in_another_order(language, teacher, data, tmp_path):
    """Of the same size, they would give other words without an error."""
    for name in ("dict.de.txt", "dict.en.txt"):
        shutil.copy(data / name, tmp_path / name)
    file = tmp_path / f"dict.{language}.txt"
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))
    with pytest.raises(UserError, match=rf"made with another dictionary: .*{language}.txt differ"):
        pet_fairseq.from_pretrained(f"{teacher}:{teacher}", str(tmp_path))


def test_an_exported_folder_from_a_folder_with_other_dictionaries(
    data, teacher, tmp_path, monkeypatch
):
    """Such a checkpoint names its own folder, "."."""
    plain = ("--to", "fairseq", "--out", tmp_path / "it")
    assert in_process("export", teacher, "--data", data, *plain).status == 0
    here = tmp_path / "here"
    here.mkdir()
    for file in data.glob("dict.*"):
        first, *others = file.read_text().splitlines()
        (here / file.name).write_text("\n".join([*others, first]) + "\n")
    monkeypatch.chdir(here)
    translator = pet_fairseq.from_pretrained(str(tmp_path / "it/model.pt"))
    expected = pet_fairseq.from_pretrained(str(teacher), str(data)).translate(TEXT, beam=3)
    assert translator.translate(TEXT, beam=3) == expected
