"""Models in ONNX: the same logits and the same translations as here."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from pet_fairseq.decoding.task import PetTranslationTask
from pet_fairseq.environment import version_numbers
from pet_fairseq.errors import UserError
from pet_fairseq.export.onnx import TORCH
from tests.cli.processes import in_process, refusal
from tests.packages import ONNX, need
from tests.translation import WORDS, make_model, make_task, save_state

need(*ONNX)
if version_numbers(torch.__version__) < TORCH:
    pytest.skip("torch is too old to export to ONNX", allow_module_level=True)

from pet_fairseq.export.export import export  # noqa: E402
from pet_fairseq.export.onnx_graphs import NumberedEncoder  # noqa: E402
from pet_fairseq.predict.onnx_model import OnnxModel, find_graph  # noqa: E402
from pet_fairseq.predict.shared_options import Search  # noqa: E402
from pet_fairseq.predict.text import Text  # noqa: E402
from pet_fairseq.predict.translator import Translator  # noqa: E402

SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 1, "attention_heads": 2}
SHAPE = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in SIZES.items()}
SHAPE |= {"max_source_positions": 20, "max_target_positions": 20}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
WIDE_ENCODER = {"encoder_embed_dim": 24, "encoder_layers": 2, "encoder_attention_heads": 4}
LANGUAGES = {"source_prefix": ["w3"], "decoder_start": ["</s>", "w4"]}
MODELS = {
    "plain": ("transformer", {"share_decoder_input_output_embed": True}),
    "widths": ("transformer", WIDE_ENCODER | PRE_NORM),
    "learned": (
        "transformer",
        {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True},
    ),
    "pet": ("pet_transformer", {"decoder_layers": 2, "encoder_layers": 2}),
    "marian": ("marian", {"swish": True, "share_all_embeddings": True}),
    "bilingual": ("bilingual_transformer", LANGUAGES | {"share_all_embeddings": True}),
    "bilingual_marian": ("bilingual_marian", {"source_prefix": ["w3"], "swish": True}),
}
SOURCES = [["w1", "w5", "w3", "w2", "w6"], ["w2"], ["w4", "nothing", "w1"], ["w9"] * 7]


class Exported:
    """A random model, its checkpoint, and the folder of its ONNX form."""

    def __init__(self, folder, arch, options, precision=None, words=WORDS, std=0.7):
        self.task = make_task(folder / "data", words)
        if (folder / "spm.model").exists():
            shutil.copy(folder / "spm.model", folder / "data")
        self.model, args = make_model(self.task, arch, **SHAPE | options)
        args._name = arch
        randomise(self.model.eval(), std)
        self.path = folder / "model.pt"
        save_state(self.path, self.model, args, {**vars(self.task.cfg), "_name": "translation"})
        self.out = folder / "onnx"
        rest = ("onnx", self.out)
        self.lacks = export(str(self.path), str(folder / "data"), *rest, precision=precision)

    def expected(self, search, sources=SOURCES):
        """What the fast search finds, as words."""
        task = PetTranslationTask.like(self.task, vars(self.task.cfg))
        translator = Translator(self.model, task, Text(), search=search)
        texts = [translator.numbers(" ".join(source)) for source in sources]
        found = translator.find_pieces([translator.join([text]) for text in texts], None)
        return [[line.split() for line in some] for some in found]


@torch.no_grad()
def randomise(model, std):
    """Weights with which what is translated depends on the source."""
    torch.manual_seed(1)
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.normal_(std=std)
        elif "norm" in name:
            weight.normal_(std=0.3).add_(float(name.endswith("weight")))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    made = {}

    def export(name, precision=None):
        if (name, precision) not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name, precision] = Exported(folder, *MODELS[name], precision)
        return made[name, precision]

    return export


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_translations(name, beam, exported):
    one = exported(name)
    search = Search(beam=beam, lenpen=0.7, nbest=beam)
    found = OnnxModel(one.out, threads=1).translate(SOURCES, beam, 0.7)
    expected = one.expected(search)
    assert found == expected
    assert beam == 1 or len({tuple(some[0]) for some in expected}) > 1


@pytest.mark.slow
def test_more_beams_than_words(exported):
    """As in fairseq, as many beams as there are words other than padding."""
    one = exported("widths")
    words = len(one.model.decoder.dictionary) - 1
    model = OnnxModel(one.out, threads=1)
    assert model.translate(SOURCES, 10 * words) == model.translate(SOURCES, words)
    assert len(model.translate(SOURCES, 10 * words)[0]) == words


def test_the_same_logits(exported):
    """Of steps with a cache, of several words at once, and beside padding."""
    one = exported("widths")
    model = OnnxModel(one.out, threads=1)
    assert_equal_logits(model, one.model, atol=1e-4)


def assert_equal_logits(exported, model, atol):
    tokens = torch.tensor([[5, 9, 4, 7, 2], [6, 2, 1, 1, 1]])
    targets = torch.tensor([[2, 6, 9, 4], [2, 7, 5, 8]])
    with torch.no_grad():
        expected = model(tokens, torch.tensor([5, 2]), targets)[0].numpy()
    mask = tokens.ne(1).long().numpy()
    inputs = {"input_ids": tokens.numpy(), "attention_mask": mask}
    source = {
        "encoder_hidden_states": exported.encoder.run(None, inputs)[0],
        "encoder_attention_mask": mask,
    }
    for parts in ([4], [1, 1, 1, 1], [2, 1, 1]):
        shapes = cached(exported).items()
        cache = {n: np.zeros((2, h, 0, d), np.float32) for n, (_, h, _, d) in shapes}
        found = []
        for part in np.split(targets.numpy(), np.cumsum(parts)[:-1], axis=1):
            logits, *presents = exported.decoder.run(None, {"input_ids": part, **source, **cache})
            cache = dict(zip(cache, presents))
            found.append(logits)
        assert np.allclose(np.concatenate(found, axis=1), expected, atol=atol)


@pytest.mark.slow
def test_int8_is_smaller_and_near(tmp_path):
    wide = {"embed_dim": 64, "ffn_embed_dim": 256}
    options = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in wide.items()}
    sizes, logits = [], []
    for precision in ("fp32", "int8"):
        (tmp_path / precision).mkdir()
        one = Exported(tmp_path / precision, "transformer", options, precision, std=0.1)
        files = [find_graph(one.out, name) for name in ("encoder_model", "decoder_model_merged")]
        sizes.append(sum(file.stat().st_size for file in files))
        logits.append(first_logits(OnnxModel(one.out, threads=1)))
        assert len(list((one.out / "onnx").iterdir())) == 2
    assert all(file.stem.endswith("_quantized") for file in files)
    assert sizes[1] < 0.5 * sizes[0]
    assert 0 < np.abs(logits[1] - logits[0]).max() < 0.2 * np.abs(logits[0]).max()
    found = OnnxModel(one.out, threads=1).translate(SOURCES, 2)
    assert len(found) == len(SOURCES)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_shared_layers_are_stored_once(precision, tmp_path):
    """PET's layers 1 and 3; in the encoder queries and keys change places."""
    wide = {"embed_dim": 128, "ffn_embed_dim": 512, "layers": 4}
    options = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in wide.items()}
    sizes = []
    for pairs in ("pet", "none"):
        (tmp_path / pairs).mkdir()
        options |= {"encoder_pairs": pairs, "decoder_pairs": pairs}
        one = Exported(tmp_path / pairs, "pet_transformer", options, precision, std=0.1)
        sizes.append(sum(file.stat().st_size for file in (one.out / "onnx").iterdir()))
    assert sizes[0] < 0.55 * sizes[1]


def first_logits(model):
    words = np.array([[5, 9, 4, 7, 2]])
    mask = np.ones_like(words)
    states = model.encoder.run(None, {"input_ids": words, "attention_mask": mask})[0]
    source = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
    cache = {n: np.zeros((1, h, 0, d), np.float32) for n, (_, h, _, d) in cached(model).items()}
    return model.decoder.run(["logits"], {"input_ids": words[:, -1:], **source, **cache})[0]


def cached(model):
    """The shapes of the decoder's cache by the names of its inputs."""
    return {i.name: i.shape for i in model.decoder.get_inputs() if i.name.startswith("past")}


def test_words_have_numbers_behind_others():
    """The first of 4 words has number 5; all numbers before it and behind the last are unknown."""

    class Same(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            return input_ids

    encoder = NumberedEncoder(Same(), first=5, words=4, unknown=3)
    found = encoder(torch.tensor([[0, 4, 5, 6, 8, 9, 99]]), None)
    assert found.tolist() == [[3, 3, 0, 1, 3, 3, 3]]


def test_names_of_inputs_and_outputs(exported):
    """As optimum has them."""
    model = OnnxModel(exported("widths").out, threads=1)
    assert [i.name for i in model.encoder.get_inputs()] == ["input_ids", "attention_mask"]
    assert [o.name for o in model.encoder.get_outputs()] == ["last_hidden_state"]
    names = [f"0.{side}.{kind}" for side in ("decoder", "encoder") for kind in ("key", "value")]
    assert list(cached(model)) == [f"past_key_values.{name}" for name in names]
    outputs = [o.name for o in model.decoder.get_outputs()]
    assert outputs == ["logits", *(f"present.{name}" for name in names)]


def test_transformers_js_finds_the_same(exported):
    """By `@huggingface/transformers` 4 of npm, whose folder TRANSFORMERS_JS names."""
    package = os.environ.get("TRANSFORMERS_JS")
    if package is None or shutil.which("node") is None:
        pytest.skip("TRANSFORMERS_JS is not set, or there is no node")
    one = exported("bilingual_marian")
    model = OnnxModel(one.out, threads=1)
    model.config["bos_token_id"] = None  # leave no word out
    script = Path(__file__).with_name("transformers_js.mjs")
    prefix, end = model.config["source_prefix"], model.config["source_end"]
    rows = [[*prefix, *(model.numbers.get(word, 3) for word in source), *end] for source in SOURCES]
    words = ("node", script, package, one.out, json.dumps(rows))
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = [
        [model.config["decoder_start_token_id"], *map(model.words.index, some[0]), 2]
        for some in model.translate(SOURCES, beam=1)
    ]
    assert found == expected


TEXTS = ["b a d e", "", "ab dc", "e e d a b c d a e", "b a <pad> d e"]


@pytest.mark.slow
def test_raw_text(tmp_path):
    """By the command, and in Python without torch and fairseq."""
    rng = np.random.default_rng(0)
    lines = [" ".join("".join(rng.choice(list("abcde"), 3)) for _ in range(5)) for _ in range(99)]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "spm"), vocab_size=20
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    words = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    one = Exported(tmp_path, *MODELS["widths"], words=words)
    (tmp_path / "input").write_text("\n".join(TEXTS), encoding="utf-8")
    sources = [pieces.encode(text, out_type=str) for text in TEXTS if text]
    best = iter(some[0] for some in one.expected(Search(beam=3), sources))
    texts = ["".join(next(best)).replace("\u2581", " ").strip() if text else "" for text in TEXTS]
    assert len(set(texts)) > 2
    given = ("--input", tmp_path / "input", "--output", tmp_path / "output", "--beam", "3")
    assert in_process("translate", one.out, *given).status == 0
    assert (tmp_path / "output").read_text(encoding="utf-8").splitlines() == texts
    code = (
        "import sys; from pet_fairseq.predict.onnx_model import OnnxTranslator\n"
        f"print(*OnnxTranslator({str(one.out)!r}, 1).translate({TEXTS!r}, beam=3), sep='\\n')\n"
        "assert not {'torch', 'fairseq'} & sys.modules.keys()"
    )
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout.splitlines() == texts


def test_lines_of_all_kinds(exported, tmp_path):
    """A line for a line; one of 100,000 letters or too many words is divided, or cut."""
    one = exported("plain")
    room = OnnxModel(one.out, threads=1).config["max_source_tokens"]

    def translate(lines, *words):
        (tmp_path / "input").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        given = ("--input", tmp_path / "input", "--output", tmp_path / "output", "--beam", "1")
        assert in_process("translate", one.out, *given, *words).status == 0
        return (tmp_path / "output").read_text(encoding="utf-8").splitlines()

    first, last = translate(["w1 w5", "w2"])
    fits = " ".join(["w1 w5 w3"] * room).split()[:room]
    long = " ".join([*fits, "w7", "w2"])
    begin, rest = translate([" ".join(fits), "w7 w2"])
    assert translate(["w1 w5", "", long, "w2"]) == [first, "", f"{begin} {rest}".strip(), last]
    assert translate([long, "w2"], "--long-lines", "cut") == [begin, last]
    strange = ["__de__ w1", ">>fra<< w2", "w1 </s> w5", "<pad>", "x" * 100_000]
    found = translate(["w1 w5", *strange, "w2"])
    assert len(found) == 7 and (found[0], found[-1]) == (first, last)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("can_transformer", {}, "holds can_transformer: a plain Transformer has no compressed"),
        ("transformer", {"cross_self_attention": True}, "with --cross-self-attention, for which"),
        (
            "transformer",
            {"scale_fc": True},
            "an option that its graphs have no room for; give --to",
        ),
    ],
)
def test_models_without_room(arch, options, message, tmp_path):
    with pytest.raises(UserError, match=message):
        Exported(tmp_path, arch, options)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "model.pt"}


def test_wrong_options(exported, tmp_path, monkeypatch):
    one = exported("plain")
    words = ("export", one.path, "--data", one.out.parent / "data", "--to", "onnx", "--out")
    out = tmp_path / "out"
    for more, message in (
        ((out, "--precision", "fp16"), "--precision fp16: for --to onnx give fp32 or int8"),
        ((out, "--segmentation", "no"), "--segmentation no: no such file"),
        ((tmp_path,), f"--out {tmp_path}: is there already; give a new folder"),
    ):
        assert refusal(*words, *more) == f"pet-fairseq export: error: {message}"
    with monkeypatch.context() as older:
        older.setattr(torch, "__version__", "2.6.0+cpu")
        message = "torch 2.6.0+cpu: --to onnx needs 2.7 or later; install a newer one"
        assert refusal(*words, out) == f"pet-fairseq export: error: {message}"
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    missing = "onnxruntime is missing; pip install 'pet-fairseq[onnx]'"
    assert refusal(*words, out) == f"pet-fairseq export: error: {missing}"
    assert refusal("translate", one.out) == f"pet-fairseq translate: error: {missing}"
    assert not list(tmp_path.iterdir())


def test_an_export_that_is_cut_leaves_nothing(exported, tmp_path, monkeypatch):
    def cut(folder, *_):
        folder.mkdir()
        raise KeyboardInterrupt

    one = exported("plain")
    monkeypatch.setattr("pet_fairseq.export.onnx.write_graphs", cut)
    with pytest.raises(KeyboardInterrupt):
        export(
            str(one.path), str(one.out.parent / "data"), "onnx", tmp_path / "out", precision="int8"
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_export_that_is_killed_does_not_look_complete(exported, tmp_path):
    """Between two files, by a signal that no process hears of; the next export is complete."""
    one, out = exported("plain"), tmp_path / "out"
    words = ("export", str(one.path), "--data", str(one.out.parent / "data"), "--to", "onnx")
    words += ("--out", str(out))
    code = (
        "import os, signal, sys; from pet_fairseq import cli; from pet_fairseq.export import onnx\n"
        "onnx.write_graphs = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"sys.argv[1:] = {words!r}; cli.main()"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    [left] = tmp_path.iterdir()
    assert left.name == ".out.unfinished" and (left / "config.json").is_file()
    assert f"{out}: no such file" in refusal("translate", out, "--input", one.path)
    assert in_process(*words).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and find_graph(
        out, "encoder_model"
    )


def test_a_missing_tokenizer(tmp_path):
    """Words that are pieces, and no subword model."""
    with pytest.raises(
        UserError, match=r"no bpe\.codes or spm\.model in .* by --segmentation FILE"
    ):
        Exported(tmp_path, *MODELS["plain"], words=["\u2581a", "b", "\u2581c"])
    assert {path.name for path in tmp_path.iterdir()} == {"data", "model.pt"}
    (tmp_path / "spm.model").write_bytes(b"no model")
    words = ("--to", "onnx", "--out", tmp_path / "out", "--segmentation", tmp_path / "spm.model")
    line = refusal("export", tmp_path / "model.pt", "--data", tmp_path / "data", *words)
    assert line.endswith("spm.model: not a SentencePiece model; give one")


@pytest.mark.slow
def test_no_tokenizer_json_without_sentencepiece(tmp_path):
    one = Exported(tmp_path, *MODELS["plain"])
    assert not (one.out / "tokenizer.json").exists()
    reason = "not for raw text in transformers.js: neither SentencePiece nor a tokenizer.json"
    assert one.lacks == f"{reason} segments its words"
    words = ("--data", tmp_path / "data", "--to", "onnx", "--out", tmp_path / "two")
    assert f"{reason} segments its words\n" in in_process("export", one.path, *words).output


@pytest.mark.parametrize(
    "options, message",
    [
        (("--ratio", "2"), "--ratio: a model in ONNX has no plugins; leave it out"),
        (("--precision", "int8"), "--precision int8: a model in ONNX Runtime has the precision"),
        (("--device", "cuda"), "--device cuda: ONNX Runtime runs on the CPU here; leave it out"),
    ],
)
def test_options_that_a_folder_lacks(options, message, exported):
    assert message in refusal("translate", exported("plain").out, *options)


def test_broken_folders(exported, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(exported("plain").out, folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: cannot be read; export the model again"):
        OnnxModel(folder)
    find_graph(folder, "decoder_model_merged").write_bytes(b"x")
    with pytest.raises(UserError, match=r"merged\.onnx: ONNX Runtime cannot use it: "):
        OnnxModel(folder)
    find_graph(folder, "decoder_model_merged").unlink()
    with pytest.raises(UserError, match=r"has no onnx/decoder_model_merged\.onnx; export"):
        OnnxModel(folder)
