"""Imported by fuzz.py: the readers of pet_fairseq and how wrong inputs for them are made.

A reader is prepared once in a folder and then gives, for a source of random numbers, a function
that reads one input. A new reader is a function here with its name in READERS.
"""

import gzip
import json
import lzma
import random
import string
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

Read = Callable[[], object]
Prepare = Callable[[Path], Callable[[random.Random], Read]]

# what breaks readers of text: huge, foreign and almost numbers, half characters, control characters
ODD = (
    *("", " ", "\n", "\t", "\0", "\x85", "\u2028", "\ufeff", "é", "٣", "²", "\ud800", "%s"),
    *("0", "1", "2", "3", "9", "-1", "+1", "1.5", "1_0", "1e9", "1e999", "nan", "inf", "-0"),
    *("9" * 30, "9" * 5000, "{", "}", "[", "]", "[" * 5000, '"', "'", "\\", "/", ",", "=", ":"),
    *("null", "true", "{}", "[]", "NaN", "None", "../..", "/dev/null", "*"),
)


# --- wrong inputs ---------------------------------------------------------------------------------


def soup(draw: random.Random, words: Sequence[str]) -> str:
    """Up to 12 of a reader's own words, some of them odd ones."""
    number = draw.randint(0, 12)
    return "".join(draw.choice(ODD if draw.random() < 0.15 else words) for _ in range(number))


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Bytes that were cut, flipped, repeated, left out or mixed, in one to four places."""
    for _ in range(draw.randint(1, 4)):
        start, end = sorted(draw.randint(0, len(data)) for _ in range(2))
        change = draw.randrange(7)
        if change == 0:
            data = data[:start]
        elif change == 1 and data:
            at = draw.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        elif change == 2:
            data = data[:start] + draw.randbytes(draw.randint(1, 20)) + data[start:]
        elif change == 3:
            data = data[:start] + data[end:]
        elif change == 4:
            data = data[:end] + data[start : min(end, start + 1000)] + data[end:]
        elif change == 5:
            data = data[:start] + draw.choice(ODD).encode("utf-8", "replace") + data[start:]
        else:
            data = data[:start] + bytes(min(end - start, 1000)) + data[end:]
    return data


def odd_value(draw: random.Random, depth: int = 0) -> object:
    """Some value that JSON can hold."""
    kind = draw.randrange(7 if depth < 3 else 5)
    if kind < 2:
        return draw.choice((None, True, False, 0, 1, -1, 10**30, 1e308, float("nan"), 2.5))
    if kind < 5:
        return draw.choice(ODD)[:100]
    values = [odd_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return values if kind == 5 else {draw.choice(string.ascii_letters): v for v in values}


def changed(draw: random.Random, value: object) -> object:
    """A JSON value of which a part has another value or is missing."""
    if not isinstance(value, (dict, list)) or not value or draw.random() < 0.2:
        return odd_value(draw)
    copy = dict(value) if isinstance(value, dict) else list(value)
    key = draw.choice(list(copy)) if isinstance(copy, dict) else draw.randrange(len(copy))
    if draw.random() < 0.3:
        del copy[key]
    else:
        copy[key] = changed(draw, copy[key])
    return copy


def damaged_json(draw: random.Random, value: object) -> bytes:
    """Text that is almost this JSON value, in its form or in its content."""
    if draw.random() < 0.5:
        return damaged(draw, json.dumps(value).encode())
    return json.dumps(changed(draw, value)).encode("utf-8", "replace")


def from_file(path: Path, make: Callable[[random.Random], bytes], read: Callable[[], object]):
    """A reader of a file whose content is made anew for every input."""

    def prepare_input(draw: random.Random) -> Read:
        path.write_bytes(make(draw))
        return read

    return prepare_input


# --- texts of options -----------------------------------------------------------------------------


def pairs(folder: Path):
    from pet_fairseq.pet.pairs import PRESETS, ModulePath, find_owner, parse_pairs

    slots = [f"{x}{n}" for x in ("L", "Q", "Kself", "Venc", "O", "q") for n in ("", 1, 2, 4, 5)]
    words = [*slots, *(f"{a}={b}" for a, b in zip(slots, slots[7:])), "=", " ", " ", ","]

    def make(draw: random.Random) -> Read:
        stack, layers = draw.choice(("encoder", "decoder")), draw.randint(1, 5)
        text = draw.choice(PRESETS[stack]) if draw.random() < 0.05 else soup(draw, words)

        def read() -> None:
            parsed = parse_pairs(text, stack, layers)
            for layer in range(layers):
                find_owner(ModulePath(layer, "self_attn.q_proj"), parsed, stack)

        return read

    return make


def heads(folder: Path):
    from pet_fairseq.pet.heads import parse_heads

    words = ("1", "2", "3,1", "4", "1,4/2,3", "/", ",", "/", "1,2")

    def make(draw: random.Random) -> Read:
        text, layers = soup(draw, words), draw.randint(1, 4)
        return lambda: parse_heads(text, "--x", layers, 4)

    return make


def patience(folder: Path):
    from pet_fairseq.baselines.patience import patience_layers

    words = ("last", "skip", "1", "2", ",", "1,2", "2,3,5", "/", " ")

    def make(draw: random.Random) -> Read:
        text = soup(draw, words)
        teacher, student = ({s: draw.randint(1, 6) for s in ("encoder", "decoder")} for _ in "ab")
        return lambda: patience_layers(text, teacher, student)

    return make


def ratios(folder: Path):
    """The range of SelfCP's ratios, a threshold, the row of a recipe, the stacks of a command."""
    from pet_fairseq.pet.pair_report import read_stacks
    from pet_fairseq.pet.simplified_thresholds import read_threshold
    from pet_fairseq.recipes.selfcp import parse_row
    from pet_fairseq.selfcp.task import read_range

    words = ("2", "16", ",", "2,16", ".5", "auto", "selfcp", "-k", "k4", "encoder", "decoder")
    readers = (
        read_range,
        lambda text: read_threshold("--x", text),
        lambda text: parse_row(text, 4),
        read_stacks,
    )

    def make(draw: random.Random) -> Read:
        read, text = draw.choice(readers), soup(draw, words)
        return lambda: read(text)

    return make


# --- text files -----------------------------------------------------------------------------------


def json_lines(folder: Path):
    from pet_fairseq.selfcp.prompts import read_paragraphs, read_records

    record = {"query": "who?", "prompt": "a long tale é of a fox", "response": "the fox"}

    def make(draw: random.Random) -> Read:
        lines = [json.dumps(record).encode()] * draw.randint(0, 2)
        lines.insert(draw.randint(0, len(lines)), damaged_json(draw, record))
        packed = draw.random() < 0.3
        path = folder / ("some.json.gz" if packed else "some.json")
        data = b"\n".join(lines)
        if packed:
            data = gzip.compress(data)
            data = damaged(draw, data) if draw.random() < 0.5 else data
        path.write_bytes(data)
        read = draw.choice((read_records, read_paragraphs))
        return lambda: list(read(path, 100_000, "reading"))

    return make


def dictionary(folder: Path):
    from pet_fairseq.checkpoints.dictionaries import load_dictionary

    path = folder / "dict.txt"
    lines = "".join(f"word{i} {100 - i}\n" for i in range(10)) + "<s> 3 #fairseq:overwrite\n"
    return from_file(
        path, lambda draw: damaged(draw, lines.encode()), lambda: load_dictionary(path, "--data")
    )


def outputs(folder: Path):
    """What fairseq-generate and fairseq-validate printed."""
    from pet_fairseq.recipes.teacher_text import read_pairs
    from pet_fairseq.report.outputs import read_output
    from pet_fairseq.score.answers import read_hypotheses
    from pet_fairseq.score.rouge import read_perplexity

    path = folder / "generate.txt"
    text = "".join(
        f"S-{i}\tein hund\nT-{i}\ta dog\nH-{i}\t-0.3\ta dog\nD-{i}\t-0.3\ta dog\n" for i in (1, 0)
    )
    text += "valid on 'test' subset | loss 3.1 | ppl 8.6\n"
    text += "Translated 2 sentences (4 tokens) in 0.1s (20.00 sentences/s, 40 tokens/s)\n"
    readers = (
        lambda: read_output(path),
        lambda: read_hypotheses(path, 2, path),
        lambda: read_perplexity(path),
        lambda: read_pairs(path),
    )

    def make(draw: random.Random) -> Read:
        path.write_bytes(damaged(draw, text.encode()))
        return draw.choice(readers)

    return make


def scores(folder: Path):
    """Right answers, and scores of runs."""
    from pet_fairseq.score.answers import read_gold
    from pet_fairseq.score.seed_table import read_seeds
    from pet_fairseq.variator.comparison import read_scores

    run = folder / "pet.seed1"
    run.mkdir(exist_ok=True)
    path = run / "result.json"
    samples = (
        ({"q1": ["a", "b"], "q2": ["c"]}, lambda: read_gold(path)),
        ({"bleu": 31.5, "accuracy": 80.0, "total": 100}, lambda: read_scores(path)),
        ({"bleu": 31.5, "accuracy": 80.0, "total": 100}, lambda: read_seeds(folder, "pet")),
    )

    def make(draw: random.Random) -> Read:
        value, read = draw.choice(samples)
        path.write_bytes(damaged_json(draw, value))
        return read

    return make


def record(folder: Path):
    """The note beside a product of a recipe."""
    from pet_fairseq.recipes.record import read_record, record_path

    product = folder / "product"
    value = {"command": ["a", "b"], "inputs": {"file": "digest"}, "finished": True}
    return from_file(
        record_path(product), lambda draw: damaged_json(draw, value), lambda: read_record(product)
    )


# --- banks ----------------------------------------------------------------------------------------


def make_bank(folder: Path) -> Path:
    import numpy as np

    from pet_fairseq.selfcp.bank import Writer, create
    from pet_fairseq.selfcp.manifest import Source

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
    from pet_fairseq.selfcp.bank import Bank
    from pet_fairseq.selfcp.manifest import MANIFEST, checksum

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
    from pet_fairseq.selfcp.bank import FILES, Bank

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
    from pet_fairseq.checkpoints.safe_loading import load_checkpoint
    from pet_fairseq.model_options import model_options
    from pet_fairseq.report.checkpoint import measure_sizes, training_seconds

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


# --- files of other libraries ---------------------------------------------------------------------


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


def bert(folder: Path):
    """config.json, tokenizer.json and model.safetensors of a BERT."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models

    from pet_fairseq.pretrained.bert import bert_vocabulary
    from pet_fairseq.pretrained.source import Source, open_file, read_config
    from pet_fairseq.pretrained.tokenizer_file import read_tokenizer

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
            source = Source(folder, None, None, lambda: read_tokenizer(folder))
            return lambda: bert_vocabulary(source, len(words))
        weights.write_bytes(damaged(draw, tensors))
        return lambda: dict(open_file(weights))

    return make


READERS: dict[str, Prepare] = {
    reader.__name__: reader
    for reader in (
        *(pairs, heads, patience, ratios),
        *(json_lines, dictionary, outputs, scores, record),
        *(manifest, bank),
        *(checkpoint, repair, packed, bert),
    )
}
