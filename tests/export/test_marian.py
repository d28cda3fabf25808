"""Exports for Marian: read again by what follows its definition, and translated with by its engine.

The engine is Bergamot, in Node. Its package is found in the folder that BERGAMOT_NODE_MODULES
names.
"""

import json
import math
import os
import re
import shutil
import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from sentencepiece import SentencePieceProcessor

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.huggingface.marian_model import MarianStudent, engine_positions
from pet_fairseq.predict.bergamot import VARIABLE, Bergamot, find_worker
from pet_fairseq.predict.hub import from_pretrained
from tests.cli.processes import in_process, refusal
from tests.distributed.cases import CASES, DATA, build, read_options
from tests.export.translators import (
    PRE_NORM,
    SHARED,
    TEXTS,
    TIED,
    Made,
    make,
    sentence_pieces,
)
from tests.translation import make_task, save_model

WIDE = {"encoder_embed_dim": 64, "decoder_embed_dim": 64, "encoder_layers": 1}
STUDENT = partial(make, pieces=sentence_pieces, **SHARED, **WIDE)
ARCHS = {
    "relu": ("marian_student", {}),
    "swish": ("marian_student", {"swish": True}),
    "pet": ("pet_marian_student", {"encoder_layers": 2, "encoder_pairs": "Q1=K2 L1=L2"}),
}
UNEQUAL_HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 4}
CHARACTER = "\u00e9"  # a word that is no piece


@torch.no_grad()
def randomise(model) -> None:
    """Weights with which what is translated depends on the source; what is fixed stays."""
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        if "embed_tokens" in name:
            weight.normal_(std=0.35)
            weight[[1, 3]] = 0  # <pad>, and <unk>, which no translation is to have
        elif weight.dim() > 1:
            weight.normal_(std=1.0 if "encoder_attn.v" in name or "encoder_attn.o" in name else 0.5)
        else:
            weight.normal_(std=0.05).add_(float("norm.weight" in name))


def pieces_but_some(folder: Path) -> list[str]:
    """The pieces of a SentencePiece model but one, and words that are none of them."""
    pieces = sentence_pieces(folder)
    dropped = next(piece for piece in pieces if len(piece) > 2)
    return [*(piece for piece in pieces if piece != dropped), CHARACTER, "madeupword0000"]


class Exported:
    """A model, our translator, and its exported folder."""

    def __init__(self, folder: Path, arch: str, precision: str = "fp32", **options):
        made = STUDENT(folder / "data", arch, **{"pieces": pieces_but_some} | options)
        self.folder, self.checkpoint, self.data = folder / precision, made.checkpoint, made.data
        export(made.checkpoint, made.data, "marian", self.folder, precision=precision)
        self.ours = from_pretrained(made.checkpoint, made.data)

    @property
    def words(self):
        return self.ours.src_dict

    def pieces(self) -> SentencePieceProcessor:
        return SentencePieceProcessor(model_file=str(self.folder / "vocab.spm"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    made = {}

    def make_one(name, precision="fp32"):
        if (name, precision) not in made:
            arch, options = ARCHS[name]
            folder = tmp_path_factory.mktemp(name)
            made[name, precision] = Exported(folder, arch, precision, change=randomise, **options)
        return made[name, precision]

    return make_one


# --- the model, by Marian's definition ------------------------------------------------------------


def read_npz(folder: Path) -> tuple[dict[str, np.ndarray], dict]:
    content = dict(np.load(folder / "model.npz"))
    text = content.pop("special:model.yml").tobytes()
    assert text.endswith(b"\0")
    assert all(tensor.dtype == np.float32 for tensor in content.values())
    return {n: t.astype(np.float64) for n, t in content.items()}, yaml.safe_load(text[:-1])


class SlowMarian:
    """Marian's Transformer for one sentence, word by word and head by head, in float64."""

    def __init__(self, tensors: dict[str, np.ndarray], options: dict):
        self.tensors, self.options = tensors, options
        assert options["transformer-postprocess"] == "dan" and not options["transformer-preprocess"]
        assert options["tied-embeddings-all"] and options["type"] == "transformer"
        assert not options["transformer-train-position-embeddings"]
        assert options["dim-vocabs"] == [len(tensors["Wemb"])] * 2
        assert options["dim-emb"] == tensors["Wemb"].shape[1]
        assert options["transformer-dim-ffn"] == tensors["encoder_l1_ffn_W1"].shape[1]

    def at(self, vector: np.ndarray, position: int) -> np.ndarray:
        """A word's vector at a position: scaled, with sines and cosines added."""
        half = len(vector) // 2
        result = math.sqrt(len(vector)) * vector
        for i in range(half):
            angle = position * math.exp(-i * math.log(10000) / (half - 1))
            result[i] += math.sin(angle)
            result[half + i] += math.cos(angle)
        return result

    def affine(self, x: np.ndarray, weight: str, bias: str) -> np.ndarray:
        return x @ self.tensors[weight] + self.tensors[bias][0]

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        spread = np.sqrt(np.mean((x - x.mean()) ** 2) + 1e-6)
        scale, bias = self.tensors[f"{name}_ln_scale"][0], self.tensors[f"{name}_ln_bias"][0]
        return scale * (x - x.mean()) / spread + bias

    def attend(self, x: np.ndarray, others: list[np.ndarray], name: str) -> np.ndarray:
        """x after attention to other vectors, the residual and the norm."""
        query = self.affine(x, f"{name}_Wq", f"{name}_bq")
        keys = [self.affine(other, f"{name}_Wk", f"{name}_bk") for other in others]
        values = [self.affine(other, f"{name}_Wv", f"{name}_bv") for other in others]
        size = len(x) // self.options["transformer-heads"]
        joined = []
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            scores = np.array([query[part] @ key[part] / math.sqrt(size) for key in keys])
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            joined.append(sum(share * value[part] for share, value in zip(shares, values)))
        y = self.affine(np.concatenate(joined), f"{name}_Wo", f"{name}_bo")
        return self.norm(x + y, f"{name}_Wo")

    def feed_forward(self, x: np.ndarray, name: str) -> np.ndarray:
        hidden = self.affine(x, f"{name}_W1", f"{name}_b1")
        activation = self.options["transformer-ffn-activation"]
        hidden = {
            "relu": np.maximum(hidden, 0),
            "swish": hidden / (1 + np.exp(-hidden)),
        }[activation]
        return self.norm(x + self.affine(hidden, f"{name}_W2", f"{name}_b2"), f"{name}_ffn")

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """The logits behind the start and behind each word of the target, T + 1 x V."""
        embeddings = self.tensors["Wemb"]
        states = [self.at(embeddings[word].copy(), i) for i, word in enumerate(source)]
        for k in range(1, self.options["enc-depth"] + 1):
            name = f"encoder_l{k}"
            states = [self.attend(x, states, f"{name}_self") for x in states]
            states = [self.feed_forward(x, f"{name}_ffn") for x in states]
        start = np.zeros(embeddings.shape[1])
        words = [start, *(embeddings[word].copy() for word in target)]
        outputs = [self.at(vector, i) for i, vector in enumerate(words)]
        for k in range(1, self.options["dec-depth"] + 1):
            name = f"decoder_l{k}"
            outputs = [
                self.attend(x, outputs[: i + 1], f"{name}_self") for i, x in enumerate(outputs)
            ]
            outputs = [self.attend(x, states, f"{name}_context") for x in outputs]
            outputs = [self.feed_forward(x, f"{name}_ffn") for x in outputs]
        return np.array(outputs) @ embeddings.T + self.tensors["decoder_ff_logit_out_b"][0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHS)
@torch.no_grad()
def test_logits(name, exported):
    """Those of the file are those of our model, for all words that it has."""
    one = exported(name)
    model = one.ours.models[0].double()
    marian, pieces, words = SlowMarian(*read_npz(one.folder)), one.pieces(), one.words
    names = [pieces.id_to_piece(i) for i in range(len(pieces))]
    known = [i for i, piece in enumerate(names) if piece in words.indices]
    ours = [words.index(names[i]) for i in known]
    rng = np.random.default_rng(0)
    source, target = rng.choice(known[2:], 9).tolist(), rng.choice(known[2:], 6).tolist()
    found = marian.logits([*source, 0], target)
    numbers = dict(zip(known, ours))
    tokens = torch.tensor([[*(numbers[i] for i in source), words.eos()]])
    previous = torch.tensor([[words.eos(), *(numbers[i] for i in target)]])
    expected = model(tokens, torch.tensor([10]), previous)[0][0].numpy()
    one.ours.models[0].float()
    assert np.allclose(found[:, known], expected[:, ours], atol=2e-3)
    assert expected.std() > 0.3
    others = [i for i in range(len(names)) if i not in known]
    assert others and (found[:, others] < -9000).all()


# --- the vocabulary -------------------------------------------------------------------------------


def test_vocabulary(exported):
    """It segments text as the student's does, and its numbers are those of Marian."""
    one = exported("relu")
    pieces = one.pieces()
    before = SentencePieceProcessor(model_file=str(Path(one.data, "spm.model")))
    assert (pieces.eos_id(), pieces.unk_id(), pieces.bos_id(), pieces.pad_id()) == (0, 1, -1, -1)
    assert len(pieces) % 8 == 0
    for text in TEXTS:
        assert pieces.encode(text, out_type=str) == before.encode(text, out_type=str)
    assert pieces.piece_to_id(CHARACTER) > 1
    assert pieces.piece_to_id("madeupword0000") == 1
    tensors, _ = read_npz(one.folder)
    weight = one.ours.models[0].encoder.embed_tokens.weight.detach().numpy()
    absent = 0
    for i in range(len(pieces)):
        piece = pieces.id_to_piece(i)
        is_absent = piece not in one.words.indices
        absent += is_absent
        assert np.array_equal(tensors["Wemb"][i], weight[one.words.index(piece)])
        assert (tensors["decoder_ff_logit_out_b"][0, i] < -9000) == is_absent
    assert absent


# --- Bergamot's files -----------------------------------------------------------------------------


def read_binary(path: Path) -> dict[str, tuple[int, tuple, bytes]]:
    """The items of a file of Marian's binary format: type, shape and bytes by name."""
    data = path.read_bytes()
    version, count = struct.unpack_from("<QQ", data)
    assert version == 1
    headers = [struct.unpack_from("<QQQQ", data, 16 + 32 * i) for i in range(count)]
    at, names, shapes, items = 16 + 32 * count, [], [], {}
    for length, *_ in headers:
        names.append(data[at : at + length - 1].decode())
        assert data[at + length - 1] == 0
        at += length
    for _, _, dimensions, _ in headers:
        shapes.append(struct.unpack_from(f"<{dimensions}i", data, at))
        at += 4 * dimensions
    (gap,) = struct.unpack_from("<Q", data, at)
    at += 8 + gap
    for name, (_, kind, _, size), shape in zip(names, headers, shapes):
        assert at % 256 == 0
        items[name] = (kind, shape, data[at : at + size])
        at += size
    assert at == len(data)
    return items


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_binary_file(precision, exported):
    one = exported("swish", precision)
    tensors, options = read_npz(one.folder)
    items = read_binary(next(one.folder.glob("*.bin")))
    kind, _, text = items.pop("special:model.yml")
    assert kind == 0x0101 and yaml.safe_load(text.rstrip(b"\0")) == options
    assert items.keys() == tensors.keys()
    rounded = 0
    for name, (kind, shape, data) in items.items():
        expected = tensors[name]
        assert shape == expected.shape
        if kind == 0x0404:
            assert np.array_equal(
                np.frombuffer(data, "<f4", expected.size).reshape(shape), expected
            )
            continue
        assert kind == 0x4101 and min(shape) > 1
        rounded += 1
        (scale,) = struct.unpack_from("<f", data, expected.size)
        numbers = np.frombuffer(data, np.int8, expected.size)
        across = name == "Wemb"  # Marian holds embeddings as they are, all other matrices turned
        matrix = numbers.reshape(shape) if across else numbers.reshape(shape[::-1]).T
        assert np.abs(matrix / scale - expected).max() <= 0.501 / scale
        assert np.abs(numbers.astype(int)).max() == 127
        assert shape[0 if across else 1] % 8 == 0 and shape[1 if across else 0] % 64 == 0
    layers = options["enc-depth"] * 6 + options["dec-depth"] * 10
    assert rounded == (layers + 1 if precision == "int8" else 0)


def test_int8_is_smaller(exported):
    sizes = [
        next(exported("swish", precision).folder.glob("*.bin")).stat().st_size
        for precision in ("fp32", "int8")
    ]
    assert sizes[1] < 0.4 * sizes[0]


def test_configurations(exported):
    for precision, gemm in (("fp32", "float32"), ("int8", "int8shiftAll")):
        folder = exported("swish", precision).folder
        marian, bergamot = (
            yaml.safe_load((folder / name).read_text()) for name in ("config.yml", "bergamot.yml")
        )
        assert marian["models"] == ["model.npz"] and "gemm-precision" not in marian
        assert bergamot["gemm-precision"] == gemm
        for config in (marian, bergamot):
            names = [*config["models"], *config["vocabs"]]
            assert config["relative-paths"] and all((folder / name).is_file() for name in names)
        assert json.loads((folder / "languages.json").read_text())["source_lang"] == "de"


# --- the engine -----------------------------------------------------------------------------------


@pytest.fixture
def worker() -> Path:
    if VARIABLE not in os.environ or shutil.which("node") is None:
        pytest.skip(f"{VARIABLE} is not set, or there is no node")
    return find_worker()


def our_translations(one: Exported, texts: list[str]) -> list[str]:
    """Found greedily, without unknown words, which Marian never gives."""
    rows = [one.ours.encode(text) for text in texts]
    found = one.ours.generate(rows, beam=1, max_len_a=0, max_len_b=58, unkpen=1000)
    words = [one.words.string(best[0]["tokens"]).split() for best in found]
    return ["".join(some).replace("\u2581", " ").strip() for some in words]


@pytest.mark.parametrize("name", ARCHS)
def test_bergamot_translates_as_we_do(name, exported, worker):
    """Greedily, from raw text; where a random model repeats itself, until ours is cut."""
    one = exported(name)
    texts = [text.strip() for text in TEXTS] + ["\u00e9 cat", "hat", "o", "the dog"]
    found = Bergamot(one.folder, worker).translate(texts)
    expected = our_translations(one, texts)
    for theirs, ours in zip(found, expected):
        if len(ours) >= 50:
            theirs, ours = theirs[:50], ours[:50]
        assert theirs == ours
    assert len(set(expected)) > 3


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_translate_opens_the_folder(precision, exported, worker, tmp_path):
    """Line for line; empty ones stay empty. 8 bits change a random model's words, not its form."""
    one = exported("swish", precision)
    (tmp_path / "in").write_text("\n".join([*TEXTS[:2], "", TEXTS[4]]) + "\n", encoding="utf-8")
    given = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--beam", "1")
    done = in_process("translate", one.folder, *given)
    assert done.status == 0, done.output
    lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    expected = Bergamot(one.folder, worker).translate([*TEXTS[:2], TEXTS[4]])
    assert [line for line in lines if line] == expected
    assert len(lines) == 4 and lines[2] == "" and len(set(expected)) > 1


def test_an_engine_that_warns_a_lot(exported, tmp_path, monkeypatch):
    """It does not wait until somebody reads its warnings."""
    (tmp_path / "node").write_text("#!/bin/sh\nseq 100000 >&2; read line; echo '[\"a\"]'\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    bergamot = Bergamot(exported("relu").folder, tmp_path)
    assert bergamot.translate(["b"]) == ["a"]
    with pytest.raises(UserError, match=r"Bergamot cannot use it: 100000$"):
        bergamot.translate(["b"])


def test_files_that_the_engine_cannot_use(exported, worker, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(exported("relu").folder, folder)
    file = folder / "model.float32.bin"
    file.write_bytes(file.read_bytes()[:1000])
    (tmp_path / "in").write_text("a\n")
    line = refusal("translate", folder, "--input", tmp_path / "in")
    assert "copy: Bergamot cannot use it: " in line


# --- what is refused ------------------------------------------------------------------------------


def test_what_translate_refuses(exported, tmp_path, monkeypatch):
    folder = tmp_path / "copy"
    shutil.copytree(exported("relu").folder, folder)
    (tmp_path / "in").write_text("a\n")

    def refused(*options):
        return refusal("translate", folder, "--input", tmp_path / "in", *options)

    assert "--device cuda: Bergamot runs on the CPU" in refused("--device", "cuda")
    assert "--precision int8: a model in Bergamot" in refused("--precision", "int8")
    assert "--bpe: a model in Bergamot reads text by" in refused("--bpe", "characters")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "node: missing; install Node.js" in refused()
    (tmp_path / "node").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "node").chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert f"{VARIABLE}: {tmp_path} has no @browsermt/bergamot-translator; run npm" in refused()
    (tmp_path / "@browsermt/bergamot-translator/worker").mkdir(parents=True)
    assert "copy: Bergamot cannot use it: it ended" in refused()
    (folder / "model.float32.bin").unlink()
    assert "model.float32.bin: no such file; export the model again" in refused()
    (folder / "bergamot.yml").write_text("beam-size: 1\n")
    assert "bergamot.yml: names no model; export the model again" in refused()


@pytest.fixture
def refused(tmp_path):
    """The line in which an export is refused, which leaves nothing behind."""

    def check(made, *options):
        before = sorted(tmp_path.rglob("*"))
        line = refusal(*export_words(made, "marian"), "--out", tmp_path / "out", *options)
        assert sorted(tmp_path.rglob("*")) == before
        return line

    return check


def export_words(made, form):
    return ["export", made.checkpoint, "--data", made.data, "--to", form]


def trained_start(model) -> None:
    randomise(model)
    with torch.no_grad():
        model.decoder.output_projection.weight[1] = 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("transformer", SHARED, "holds transformer, whose positions and first word are not Marian"),
        ("pet_transformer", SHARED, "train a student with --arch marian_student"),
        ("marian", SHARED, "no room for the positions of this model"),
        ("marian_student", SHARED | PRE_NORM, "no room for --encoder-normalize-before in this"),
        ("marian_student", SHARED | {"no_scale_embedding": True}, "no room for --no-scale-embed"),
        ("marian_student", SHARED | {"activation_fn": "gelu"}, "no room for --activation-fn gelu"),
        ("marian_student", SHARED | {"layernorm_embedding": True}, "for --layernorm-embedding"),
        ("marian_student", SHARED | {"decoder_ffn_embed_dim": 8}, "--encoder-ffn-embed-dim 24 bes"),
        ("marian_student", TIED, "has one vocabulary and one matrix for all embeddings"),
        ("bilingual_marian", SHARED | {"source_prefix": ["a"]}, "it puts language tokens around"),
    ],
)
def test_models_without_room(arch, options, message, tmp_path, refused):
    line = refused(make(tmp_path / "data", arch, sentence_pieces, change=randomise, **options))
    assert message in line and re.search("--to (ctranslate2|onnx)", line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("can_transformer", SHARED, "holds can_transformer: a plain Transformer has no compressed"),
        ("transformer", SHARED | UNEQUAL_HEADS, "marian_student (pet-fairseq compress"),
        ("marian_student", SHARED | UNEQUAL_HEADS, "room for --encoder-attention-heads 2 beside 4"),
        ("marian_student", SHARED | {"activation_fn": "tanh"}, "room for --activation-fn tanh"),
    ],
)
def test_models_that_ctranslate2_has_no_room_for(arch, options, message, tmp_path, refused):
    """It is not proposed for them, as it would refuse them, too."""
    made = make(tmp_path / "data", arch, sentence_pieces, **options)
    line = refused(made)
    assert message in line and "--to ctranslate2" not in line
    assert refusal(*export_words(made, "ctranslate2"), "--out", tmp_path / "out")


def test_convolutions(tmp_path, refused):
    sizes = {"encoder_layers": "[(8, 3)]", "decoder_layers": "[(8, 3)]"}
    sizes |= {"max_source_positions": 40, "max_target_positions": 40}
    path = save_model(tmp_path / "m.pt", make_task(tmp_path / "data"), "fconv", **sizes)
    line = refused(Made(path, str(tmp_path / "data")))
    assert "holds fconv, which has no form as fairseq's transformer" in line
    assert "--to ctranslate2" not in line


def test_a_first_word_that_was_trained(tmp_path, refused):
    made = STUDENT(tmp_path / "data", "marian_student", change=trained_start)
    assert "no room for the word from which this model starts" in refused(made)


def test_subword_models(tmp_path, refused):
    made = make(tmp_path / "data", "marian_student", change=randomise, **SHARED)  # BPE codes
    assert "bpe.codes segments its text, and Marian's engine takes Sent" in refused(made)
    assert "/no: no such file; give a SentencePiece" in refused(made, "--segmentation", "/no")
    (tmp_path / "data/bpe.codes").unlink()
    assert "--segmentation: the model's words are pieces, and there is no" in refused(made)
    sentence_pieces(tmp_path / "data")  # which is for another dictionary
    given = ("--segmentation", tmp_path / "data/spm.model")
    assert "spm.model: few of the dictionary's words are pieces of it" in refused(made, *given)
    (tmp_path / "data/spm.model").write_text("none")
    assert "spm.model: not a SentencePiece model" in refused(made, *given)


def test_words_that_are_whole(tmp_path, refused):
    words = lambda folder: ["cat", "mat"]  # noqa: E731
    made = make(tmp_path / "data", "marian_student", words, change=randomise, **SHARED)
    assert "the model has no subword model" in refused(made)


def test_other_options(tmp_path, refused):
    made = make(tmp_path / "data", "marian_student", sentence_pieces, change=randomise, **SHARED)
    assert "--precision int8: the model's width 16 is not a" in refused(made, "--precision", "int8")
    assert "--precision fp16: for --to marian give fp32 or int8" in refused(
        made, "--precision", "fp16"
    )
    assert "--shortlist: only for --to ctranslate2" in refused(made, "--shortlist", "3")
    (tmp_path / "out").mkdir()
    assert "out: is there already; give a new" in refused(made)


# --- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["marian_student", "pet_marian_student"])
def test_training_leaves_what_the_engine_does_not_read(name, prepared):
    """The vectors of positions, and the zeros that the decoder starts from."""
    case = CASES[name]
    cfg = read_options(case, prepared)
    task, model = build(cfg)
    assert isinstance(model, MarianStudent)
    criterion = task.build_criterion(cfg.criterion)
    tables = [stack.embed_positions.weight.clone() for stack in (model.encoder, model.decoder)]
    words = model.decoder.output_projection.weight
    before = words.detach().clone()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=0.1, weight_decay=0.1)
    for batch in DATA[case.data].batches(task)[:2]:
        criterion(model, batch)[0].backward()
        optimizer.step()
        optimizer.zero_grad()
    pad = task.target_dictionary.pad()
    assert not words[pad].any()
    others = [i for i in range(len(words)) if i != pad]
    assert (words[others] != before[others]).any(1).all()
    for stack, table in zip((model.encoder, model.decoder), tables):
        assert stack.embed_positions.weight.equal(table)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_that_a_training_in_half_precision_rounded(dtype, tmp_path):
    """The table of positions is rounded in the checkpoint, but not in what comes of it."""
    made = STUDENT(tmp_path / "data", "marian_student", change=randomise)
    state = load_checkpoint(str(made.checkpoint), "CHECKPOINT")
    state["model"] = {name: w.to(dtype).float() for name, w in state["model"].items()}
    tables = [name for name in state["model"] if "embed_positions" in name]
    torch.save(state, made.checkpoint)
    export(made.checkpoint, made.data, "marian", tmp_path / "out")
    model = from_pretrained(made.checkpoint, made.data).models[0].state_dict()
    assert len(tables) == 2
    for name in tables:
        expected = engine_positions(len(model[name]) - 2, model[name].size(1))
        assert torch.equal(model[name][2:], expected)
        assert not torch.equal(state["model"][name][2:], expected)
