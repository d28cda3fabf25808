"""Imported by fuzz_readers.py: readers of banks, checkpoints and other libraries' models."""

import json
import lzma
import random
import struct
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fuzz_inputs import (
    Read,
    changed,
    damaged,
    damaged_json,
    from_file,
    odd_value,
)

# --- banks ----------------------------------------------------------------------------------------


def make_bank(folder: Path) -> Path:
    import numpy as np

    from pet_fairseq.selfcp.bank.bank import Writer, create
    from pet_fairseq.selfcp.bank.manifest import Source

    bank = folder / "bank"
    bank.mkdir(exist_ok=True)
    for path in bank.iterdir():
        path.unlink()
    create(bank, 4, 2.0, {"compressor": "digest"})
    writer = Writer(bank)
    writer.begin(Source("data", "train", "digest", 6, 0))
    numbers = np.random.default_rng(1)
    for _ in range(2):
        memories = [numbers.standard_normal((length, 4), dtype=np.float32) for length in (1, 2, 3)]
        writer.append(memories, [7, 8, 9])
    return bank


def manifest(folder: Path):
    """bank.json, half of the time with the checksum of its changed content."""
    from pet_fairseq.selfcp.bank.bank import Bank
    from pet_fairseq.selfcp.bank.manifest import MANIFEST, checksum

    path = make_bank(folder) / MANIFEST
    value = json.loads(path.read_text())

    def content(draw: random.Random) -> bytes:
        if draw.random() < 0.5:
            return damaged_json(draw, value)
        fields = changed(draw, {k: v for k, v in value.items() if k != "checksum"})
        if not isinstance(fields, dict):
            return json.dumps(fields).encode()
        return json.dumps({**fields, "checksum": checksum(fields)}).encode("utf-8", "replace")

    return from_file(path, content, lambda: use_bank(Bank(path.parent)))


def bank(folder: Path):
    """The files that a bank's manifest counts."""
    from pet_fairseq.selfcp.bank.bank import FILES, Bank

    whole = {path: path.read_bytes() for path in make_bank(folder).iterdir()}
    names = [path for path in whole if path.name in FILES]

    def make(draw: random.Random) -> Read:
        for path, data in whole.items():
            path.write_bytes(data)
        path = draw.choice(names)
        if draw.random() < 0.05:
            path.unlink()
        else:
            path.write_bytes(damaged(draw, whole[path]))
        return lambda: use_bank(Bank(path.parent))

    return make


def use_bank(bank) -> None:
    import numpy as np

    assert bank.manifest.unfinished is not None
    for number in range(len(bank)):
        bank.memory(number)
    bank.search(np.ones((1, bank.manifest.width)), 2)


# --- checkpoints ----------------------------------------------------------------------------------


def small_checkpoint(path: Path) -> bytes:
    """Write what fairseq's trainer writes for a Transformer, of one layer; returns its bytes."""
    from fairseq import options
    from fairseq.data import Dictionary
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.models import build_model

    parser = options.get_training_parser()
    words = ["bin", "--arch", "transformer_tiny", "--source-lang", "de", "--target-lang", "en"]
    widths = [
        word
        for stack in ("encoder", "decoder")
        for word in (f"--{stack}-layers=1", f"--{stack}-embed-dim=8", f"--{stack}-ffn-embed-dim=8")
    ]
    args = options.parse_args_and_arch(parser, [*words, *widths])
    cfg = convert_namespace_to_omegaconf(args)
    task = Namespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())
    model = build_model(cfg.model, task)
    history = {"criterion_name": "x", "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}}
    state = {
        "args": None,
        "cfg": cfg,
        "model": model.state_dict(),
        "optimizer_history": [{**history, "num_updates": 3}],
        "last_optimizer_state": {"state": {0: torch.ones(8)}},
        "extra_state": {"train_iterator": {"epoch": 1}, "previous_training_time": 2.0},
    }
    torch.save(state, path)
    return path.read_bytes()


def checkpoint(folder: Path):
    """Checkpoints cut or flipped anywhere, and pickles with other content."""
    from pet_fairseq.checkpoints.model_options import model_options
    from pet_fairseq.checkpoints.safe_loading import load_checkpoint
    from pet_fairseq.results.report.checkpoint import measure_sizes, training_seconds

    path = folder / "checkpoint.pt"
    whole = small_checkpoint(path)
    state = torch.load(path, weights_only=True)
    readers = (
        *[lambda: load_checkpoint(str(path), "--path")] * 7,
        lambda: model_options(str(path)),
        lambda: measure_sizes(path),
        lambda: training_seconds(path),
    )

    def make(draw: random.Random) -> Read:
        if draw.random() < 0.7:
            path.write_bytes(damaged(draw, whole))
        else:
            torch.save(changed_state(draw, state), path)
        return draw.choice(readers)

    return make


def changed_state(draw: random.Random, state: dict) -> object:
    """A checkpoint's content of which a part has another value or is missing."""
    if draw.random() < 0.1:
        return draw.choice((odd_value(draw), torch.ones(2), state["model"]))
    copy = dict(state)
    key = draw.choice(list(copy))
    if draw.random() < 0.3:
        del copy[key]
    else:
        part = copy[key]
        plain = isinstance(part, (dict, list)) and draw.random() < 0.8
        copy[key] = changed(draw, part) if plain else odd_value(draw)
    return copy


def repair(folder: Path):
    """A training folder whose checkpoints are damaged."""
    from pet_fairseq.checkpoints.repair import repair_folder

    last, best = folder / "checkpoint_last.pt", folder / "checkpoint_best.pt"
    whole = small_checkpoint(best)

    def make(draw: random.Random) -> Read:
        last.write_bytes(damaged(draw, whole))
        best.write_bytes(damaged(draw, whole) if draw.random() < 0.5 else whole)
        return lambda: repair_folder(folder)

    return make


def packed(folder: Path):
    """A packed file, damaged or with something else in what it says of itself."""
    from pet_fairseq.quantisation.packed_file import Packed, read_packed, write_packed

    file = folder / "packed"
    parameters = {"a": torch.ones(3, 5), "b": torch.ones(4)}
    write_packed(file, Packed(4, parameters, {"options": {"arch": "x"}}))
    whole, state = file.read_bytes(), torch.load(file)
    about = json.loads(lzma.decompress(state["about"].numpy().tobytes()))

    def make(draw: random.Random) -> Read:
        if draw.random() < 0.5:
            file.write_bytes(damaged(draw, whole))
        else:
            text = lzma.compress(damaged_json(draw, about))
            another = torch.frombuffer(bytearray(text), dtype=torch.uint8)
            torch.save({**state, "about": another}, file)
        return lambda: read_packed(str(file))

    return make


# --- models of other libraries --------------------------------------------------------------------


def engine(folder: Path):
    """model.bin, config.json and shared_vocabulary.json of a teacher in CTranslate2."""
    from pet_fairseq.compress.engine import check_translates, find_tokens, measure_engine
    from pet_fairseq.predict.ctranslate2 import read_vocabularies

    def text(word: str) -> bytes:
        return struct.pack("=H", len(word) + 1) + word.encode() + b"\0"

    names = ("encoder/embeddings_0/weight", "encoder/layer_0/ffn/linear_0/weight")
    tensors = [text(n) + struct.pack("=BIIBI", 2, 3, 2, 0, 24) + bytes(24) for n in names]
    alias = struct.pack("=I", 1) + text("decoder/embeddings/weight") + text(names[0])
    start = struct.pack("=I", 6) + text("TransformerSpec") + struct.pack("=II", 7, len(tensors))
    config = {"add_source_eos": False, "eos_token": "</s>", "decoder_start_token": "</s>"}
    whole = {
        "model.bin": b"".join((start, *tensors, alias)),
        "config.json": json.dumps(config).encode(),
        "shared_vocabulary.json": json.dumps(["a", "deu_Latn", "eng_Latn", "fra_Latn"]).encode(),
    }

    def make(draw: random.Random) -> Read:
        changed = draw.choice(list(whole))
        for name, content in whole.items():
            is_json = name.endswith(".json")
            other = damaged_json(draw, json.loads(content)) if is_json else damaged(draw, content)
            (folder / name).write_bytes(other if name == changed else content)

        def read() -> None:
            check_translates(folder)
            measure_engine(folder)
            find_tokens(folder, read_vocabularies(folder), ("deu_Latn", "eng_Latn"))

        return read

    return make


def bert(folder: Path):
    """config.json, tokenizer.json and model.safetensors of a BERT."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models

    from pet_fairseq.huggingface.bert import bert_vocabulary
    from pet_fairseq.huggingface.source import Source, open_file, read_config
    from pet_fairseq.huggingface.tokenizer_file import read_tokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = folder / "tokenizer.json"
    Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]")).save(str(tokenizer))
    weights = folder / "model.safetensors"
    save_file({"bert.embeddings.word_embeddings.weight": torch.ones(7, 4)}, str(weights))
    config = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": 4}
    pieces, tensors = json.loads(tokenizer.read_text()), weights.read_bytes()

    def make(draw: random.Random) -> Read:
        kind = draw.randrange(3)
        if kind == 0:
            (folder / "config.json").write_bytes(damaged_json(draw, config))
            return lambda: read_config(folder)
        if kind == 1:
            tokenizer.write_bytes(damaged_json(draw, pieces))
            unread: Any = None  # options and weights, which a vocabulary is not made of
            source = Source(folder, unread, unread, lambda: read_tokenizer(folder))
            return lambda: bert_vocabulary(source, len(words))
        weights.write_bytes(damaged(draw, tensors))
        return lambda: dict(open_file(weights))

    return make
