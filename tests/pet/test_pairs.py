"""Replaceable pairs: which slots share, what a list may say, what it must not."""

import random

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.pet.pairs import share
from tests.helpers import build

# slots as the tests write them: Q K V O of self-attention, with "enc" those of encoder-decoder
# attention, F for everything else in the layer (FFN and layer norms)
PROJECTIONS = {
    f"{module}.{path}": letter + suffix
    for module, suffix in (("self_attn", ""), ("encoder_attn", "enc"))
    for path, letter in (("q_proj", "Q"), ("k_proj", "K"), ("v_proj", "V"), ("out_proj", "O"))
}
ENCODER_SLOTS = "Q K V O F".split()
DECODER_SLOTS = "Q K V O Qenc Kenc Venc Oenc F".split()

# layers that the presets pair, by number of layers
LAYER_PAIRS = {
    2: ["12"],
    4: ["13", "24"],
    6: ["14", "25", "36"],
    8: ["15", "26", "37", "48"],
}
# slots of two paired layers 1 and 2 that are one module; slots not named share with nothing
PRESETS = {
    ("encoder", "pet"): "Q1=K2 K1=Q2 V1=V2 O1=O2 F1=F2",
    ("encoder", "layers"): "Q1=Q2 K1=K2 V1=V2 O1=O2 F1=F2",
    ("encoder", "none"): "",
    ("decoder", "pet"): (
        "Q1=Q2=Qenc1=Qenc2 K1=K2 V1=V2 O1=O2 Kenc1=Kenc2 Venc1=Venc2 Oenc1=Oenc2 F1=F2"
    ),
    ("decoder", "layers"): (
        "Q1=Q2 K1=K2 V1=V2 O1=O2 Qenc1=Qenc2 Kenc1=Kenc2 Venc1=Venc2 Oenc1=Oenc2 F1=F2"
    ),
    ("decoder", "none"): "",
    ("decoder", "qk"): (
        "Q1=Q2=K1=K2 V1=V2 O1=O2 Qenc1=Qenc2 Kenc1=Kenc2 Venc1=Venc2 Oenc1=Oenc2 F1=F2"
    ),
    ("decoder", "qk_crosswise"): (
        "Q1=K2 K1=Q2 V1=V2 O1=O2 Qenc1=Qenc2 Kenc1=Kenc2 Venc1=Venc2 Oenc1=Oenc2 F1=F2"
    ),
    ("decoder", "kv"): (
        "Q1=Q2 K1=K2=V1=V2 O1=O2 Qenc1=Qenc2 Kenc1=Kenc2=Venc1=Venc2 Oenc1=Oenc2 F1=F2"
    ),
}


def layers_of(stack, num_layers=4, pairs="none", **options):
    both = {f"{s}_pairs": "none" for s in ("encoder", "decoder")}
    both |= {f"{stack}_pairs": pairs, f"{stack}_layers": num_layers}
    return getattr(build(**both | options), stack).layers


def leaves(layer):
    """The sub-modules that hold parameters, found in another way than the package does."""
    return {
        name.rpartition(".")[0]: layer.get_submodule(name.rpartition(".")[0])
        for name, _ in layer.named_parameters(remove_duplicate=False)
    }


def groups(pairs):
    """'A=B=C D=E' as {{A, B, C}, {D, E}}"""
    return {frozenset(text.split("=")) for text in pairs.split()}


def shared_slots(layers):
    """Groups of slots with the same parameters: write through each name, then read through all.

    A slot keeps the number written last through any of its names, weight and bias alike.
    """
    modules = [
        (f"{PROJECTIONS.get(path, 'F')}{i}", module)
        for i, layer in enumerate(layers, 1)
        for path, module in leaves(layer).items()
    ]
    with torch.no_grad():
        for number, (_, module) in enumerate(modules):
            module.weight.fill_(number)
            module.bias.fill_(number)
    read = {}
    for slot, module in modules:
        assert torch.equal(module.weight.unique(), module.bias.unique())
        read.setdefault(slot, []).append(module.weight.unique().item())
    by_content = {}
    for slot, numbers in read.items():
        by_content.setdefault(tuple(numbers), set()).add(slot)
    return {frozenset(slots) for slots in by_content.values() if len(slots) > 1}


@pytest.mark.parametrize("num_layers", LAYER_PAIRS)
@pytest.mark.parametrize("stack, preset", PRESETS)
def test_presets(stack, preset, num_layers):
    expected = [
        PRESETS[stack, preset].translate(str.maketrans("12", pair))
        for pair in LAYER_PAIRS[num_layers]
    ]
    assert shared_slots(layers_of(stack, num_layers, preset)) == groups(" ".join(expected))


def test_pet_is_the_default():
    model = build()
    assert shared_slots(model.encoder.layers) == groups(
        "Q1=K3 K1=Q3 V1=V3 O1=O3 F1=F3 Q2=K4 K2=Q4 V2=V4 O2=O4 F2=F4"
    )
    assert frozenset("Q1 Q3 Qenc1 Qenc3".split()) in shared_slots(model.decoder.layers)


LISTS = {
    # stack, list: what is one module
    ("encoder", "L1=L3 Q1=K3 K1=Q3"): "Q1=K3 K1=Q3 V1=V3 O1=O3 F1=F3",
    ("encoder", "L1=L3,L2=L4"): "Q1=Q3 K1=K3 V1=V3 O1=O3 F1=F3 Q2=Q4 K2=K4 V2=V4 O2=O4 F2=F4",
    ("encoder", "Q1=Q2"): "Q1=Q2",
    ("encoder", "Qself2=V4"): "Q2=V4",
    # the owner may come after the slot it replaces
    ("encoder", "V4=V1"): "V1=V4",
    # a projection pair overrides the layer pair, whatever their order
    ("encoder", "V2=V3 L1=L3"): "Q1=Q3 K1=K3 V2=V3 O1=O3 F1=F3",
    ("encoder", "L1=L3 V2=V3"): "Q1=Q3 K1=K3 V2=V3 O1=O3 F1=F3",
    # chains, through layers and projections
    ("encoder", "L1=L2 L2=L3"): "Q1=Q2=Q3 K1=K2=K3 V1=V2=V3 O1=O2=O3 F1=F2=F3",
    ("encoder", "Q1=K1 K1=V1 V1=V2"): "Q1=K1=V1=V2",
    ("encoder", "L1=L2 K3=Q1"): "Q1=Q2=K3 K1=K2 V1=V2 O1=O2 F1=F2",
    # without numbers: in every layer
    ("encoder", "Q=K"): "Q1=K1 Q2=K2 Q3=K3 Q4=K4",
    ("decoder", "Qself=Qenc"): "Q1=Qenc1 Q2=Qenc2 Q3=Qenc3 Q4=Qenc4",
    ("decoder", "Kenc=Venc L2=L1"): (
        "Q1=Q2 K1=K2 V1=V2 O1=O2 F1=F2 Qenc1=Qenc2 Kenc1=Venc1=Kenc2=Venc2 Oenc1=Oenc2 "
        "Kenc3=Venc3 Kenc4=Venc4"
    ),
    ("decoder", "Q1=Qenc2 Oself3=Oenc1"): "Q1=Qenc2 O3=Oenc1",
}


@pytest.mark.parametrize("stack, pairs", LISTS)
def test_explicit_lists(stack, pairs):
    assert shared_slots(layers_of(stack, pairs=pairs)) == groups(LISTS[stack, pairs])


def encoder_parameters(d, f):
    return 4 * d**2 + 2 * d * f + 9 * d + f


def decoder_parameters(d, e, f):
    return 6 * d**2 + 2 * e * d + 2 * d * f + 15 * d + f


@pytest.mark.parametrize("num_layers", LAYER_PAIRS)
def test_number_of_parameters(num_layers):
    """The formulas of the thesis's counts: biases and layer norms included."""
    d, e, f, g = 12, 18, 14, 22
    sizes = dict(encoder_embed_dim=e, encoder_ffn_embed_dim=g)
    sizes |= dict(decoder_embed_dim=d, decoder_ffn_embed_dim=f)

    def count(stack, pairs):
        layers = layers_of(stack, num_layers, pairs, **sizes)
        return sum(p.numel() for p in layers.parameters())

    encoder, decoder = encoder_parameters(e, g), decoder_parameters(d, e, f)
    half = num_layers // 2
    assert count("encoder", "none") == num_layers * encoder
    assert count("encoder", "layers") == half * encoder
    assert count("encoder", "pet") == half * encoder
    assert count("encoder", "Q1=K1") == num_layers * encoder - (e * e + e)
    assert count("decoder", "none") == num_layers * decoder
    assert count("decoder", "layers") == half * decoder
    assert count("decoder", "pet") == half * (decoder - (d * d + d))
    assert count("decoder", "qk") == half * (decoder - (d * d + d))
    assert count("decoder", "qk_crosswise") == half * decoder
    assert count("decoder", "kv") == half * (decoder - (d * d + d) - (e * d + d))


def test_the_thesis_student():
    model = build("pet_transformer_iwslt_de_en", small=False)
    stored = sum(p.numel() for s in (model.encoder, model.decoder) for p in s.layers.parameters())
    assert stored == 2_997_120
    teacher = 6 * encoder_parameters(512, 1024) + 6 * decoder_parameters(512, 512, 1024)
    assert teacher == 31_543_296
    assert f"{100 * stored / teacher:.3f}" == "9.502"


BAD = [
    # stack, list, what the message names beside the option
    ("encoder", "L1=X3", "L1=X3", "unknown slot 'X3'"),
    ("encoder", "L1=", "L1=", "unknown slot ''"),
    ("encoder", "L1=L2=L3", "L1=L2=L3", "two slots joined by one '='"),
    ("encoder", "L1=L3 Q2", "Q2", "two slots joined by one '='"),
    ("encoder", "L2=L4 L1=L5", "L1=L5", "layer 5 is not one of 1..4"),
    ("decoder", "Qenc0=Qenc1", "Qenc0=Qenc1", "layer 0 is not one of 1..4"),
    ("encoder", "L1=Q2", "L1=Q2", "a layer with a projection"),
    ("decoder", "Qself=L", "Qself=L", "a layer with a projection"),
    ("encoder", "L=L", "L=L", "layers need numbers"),
    ("encoder", "Q1=K", "Q1=K", "layer number to both slots or to neither"),
    ("encoder", "Q=K3", "Q=K3", "layer number to both slots or to neither"),
    ("encoder", "Qself=Qenc", "Qself=Qenc", "the encoder has self-attention only"),
    ("encoder", "L2=L2", "L2=L2", "with itself"),
    ("decoder", "Q1=Qself1", "Q1=Qself1", "with itself"),
    ("decoder", "Kenc=Kenc", "Kenc=Kenc", "with itself"),
    ("encoder", "L1=L3 L2=L3", "L2=L3", "L1=L3 already replaces the same slot"),
    ("decoder", "Kself=Qenc Kself1=Qself1 V2=Qenc1", "V2=Qenc1", "Kself=Qenc already replaces"),
    ("encoder", "L1=L2 L2=L1", "L1=L2|L2=L1", "circle"),
    ("encoder", "Q1=K1 K1=V2 V2=Q1", "Q1=K1|K1=V2|V2=Q1", "circle"),
    ("encoder", "L1=L3 Q3=Q1", "L1=L3|Q3=Q1", "circle"),
    ("decoder", "Kself1=Kenc1", "Kself1=Kenc1", r"shapes differ.*\(12, 12\).*\(12, 18\)"),
    ("decoder", "L1=L3 Venc2=O3", "Venc2=O3", r"shapes differ.*\(12, 18\).*\(12, 12\)"),
    ("encoder", "petl", "petl", "not a preset"),
    ("encoder", "", "''", "not a preset"),
    ("encoder", "qk", "qk", r"not a preset \(pet, layers, none\)"),
    ("encoder", "L1,L3", "L1,L3", "not a preset"),
]


@pytest.mark.parametrize("stack, pairs, pair, reason", BAD)
def test_bad_lists_are_refused(stack, pairs, pair, reason):
    refused(layers_of(stack, encoder_embed_dim=18), pairs, stack, pair, reason)


@pytest.mark.parametrize("num_layers", [1, 3, 5])
@pytest.mark.parametrize("stack, preset", [key for key in PRESETS if key[1] != "none"])
def test_odd_number_of_layers(stack, preset, num_layers):
    layers = layers_of(stack, num_layers)
    refused(layers, preset, stack, preset, f"even number.*--{stack}-layers is {num_layers}")
    share(layers, "none", stack)


def test_pairs_with_an_encoder_attention_that_is_missing():
    layers = layers_of("decoder", no_cross_attention=True)
    refused(layers, "pet", "decoder", "Qself=Qenc", "no encoder attention")


def refused(layers, pairs, stack, pair, reason):
    """Sharing fails with one line that names option, pair and reason, and changes nothing."""
    before = list(layers.named_modules(remove_duplicate=False))
    with pytest.raises(UserError, match=f"^--{stack}-pairs:? .*({pair}).*{reason}") as error:
        share(layers, pairs, stack)
    assert "\n" not in str(error.value)
    assert list(layers.named_modules(remove_duplicate=False)) == before


def random_pairs(slots, num_layers):
    """A random list without circles: what is replaced comes after its owner, layer by layer."""
    pairs = {}
    for layer in range(2, num_layers + 1):
        if random.random() < 0.4:
            pairs["L", layer] = ("L", random.randint(1, layer - 1))
    earlier = {True: [], False: []}
    for layer in range(1, num_layers + 1):
        for slot in slots[:-1]:
            alike = earlier[slot in ("Kenc", "Venc")]  # these two have another shape
            if alike and random.random() < 0.3:
                pairs[slot, layer] = random.choice(alike)
            alike.append((slot, layer))
    return pairs


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_random_lists(stack, seed):
    """Every slot is where its pairs lead; layers and attentions stay separate objects."""
    random.seed(seed)
    slots = ENCODER_SLOTS if stack == "encoder" else DECODER_SLOTS
    pairs = random_pairs(slots, 5)

    def owner(slot, layer):
        if (slot, layer) in pairs:
            return owner(*pairs[slot, layer])
        if ("L", layer) in pairs:
            return owner(slot, pairs["L", layer][1])
        return slot, layer

    expected = {}
    for layer in range(1, 6):
        for slot in slots:
            expected.setdefault(owner(slot, layer), set()).add(f"{slot}{layer}")
    texts = [f"{a}{i}={b}{j}" for (b, j), (a, i) in pairs.items()]
    random.shuffle(texts)

    layers = layers_of(stack, 5, encoder_embed_dim=18)
    share(layers, " ".join(texts) or "none", stack)
    assert shared_slots(layers) == {frozenset(g) for g in expected.values() if len(g) > 1}

    attentions = [m for layer in layers for n, m in layer.named_modules() if n.endswith("_attn")]
    assert len(attentions) == (5 if stack == "encoder" else 10)
    assert len({id(module) for module in [*layers, *attentions]}) == 5 + len(attentions)
    names = {}
    for path, module in layers.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(path)
    assert not any(list(m.children()) for m, paths in names.items() if len(paths) > 1)
