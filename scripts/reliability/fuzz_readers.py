"""Imported by fuzz.py: the readers of pet_fairseq, by name.

A reader is prepared once in a folder and then gives, for a source of random numbers, a function
that reads one input. A new reader is a function in the file of its subject, and a name in READERS;
those of what options say are here.
"""

import importlib
import random
from pathlib import Path

from fuzz_inputs import Prepare, Read, soup
from fuzz_models import bank, bert, checkpoint, engine, manifest, packed, repair
from fuzz_texts import corpus, dictionary, json_lines, outputs, pronunciations, record, scores


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
    from pet_fairseq.pet.pair_search.report import read_stacks
    from pet_fairseq.pet.simplified_thresholds import read_threshold
    from pet_fairseq.recipes.catalogue import BESIDE_THE_PACKAGE, PACKAGE, load_recipes
    from pet_fairseq.selfcp.draws import read_range

    load_recipes(BESIDE_THE_PACKAGE)
    parse_row = importlib.import_module(f"{PACKAGE}.selfcp.rows").parse_row
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


READERS: dict[str, Prepare] = {
    reader.__name__: reader
    for reader in (
        *(pairs, heads, patience, ratios),
        *(json_lines, dictionary, outputs, pronunciations, scores, record, corpus),
        *(manifest, bank),
        *(checkpoint, repair, packed, bert, engine),
    )
}
