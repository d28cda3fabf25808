"""The model: equal to fairseq's without pairs, the traps of sharing, options and registry."""

import copy
import logging
import os

import numpy as np
import pytest
import torch
from fairseq import options, utils
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.trainer import _catalog_shared_params
from torch.testing import assert_close

from pet_fairseq.errors import UserError
from pet_fairseq.nn.attention import MultiheadAttention
from pet_fairseq.nn.layers import layers_share_parameters
from pet_fairseq.pet import transformer
from tests.generation import check_generation, generate
from tests.helpers import batch, build, dictionary, values

TOLERANCE = dict(rtol=1e-5, atol=1e-5)  # fp32
UNSHARED = dict(encoder_pairs="none", decoder_pairs="none")
SHARED = {
    "pet": {},
    "layers": dict(encoder_pairs="layers", decoder_pairs="layers"),
    "none": UNSHARED,
    "qk": dict(decoder_pairs="qk"),
    "qk_crosswise": dict(decoder_pairs="qk_crosswise"),
    "kv": dict(decoder_pairs="kv"),
    "one layer": dict(encoder_pairs="L1=L2 L2=L3 L3=L4", decoder_pairs="L1=L2 L1=L3 L1=L4"),
    "all projections": dict(encoder_pairs="Q=K K=V V=O", decoder_pairs="Q=K Q=V Q=Kenc Q=Venc"),
    "explicit": dict(encoder_pairs="L4=L1 Q1=K2", decoder_pairs="L1=L2 Qself3=Kenc1 Vself4=V3"),
    "wide heads": dict(encoder_head_dim=5, decoder_head_dim=7),
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "widths": dict(encoder_embed_dim=18, share_decoder_input_output_embed=True),
}


def real(net_input):
    """Positions of the target that are not padding: B x T."""
    return net_input["prev_output_tokens"] != dictionary().pad()


def logits(model, net_input):
    return model(**net_input)[0]


def stepwise_logits(model, net_input):
    encoded = model.encoder(net_input["src_tokens"], net_input["src_lengths"])
    target, state = net_input["prev_output_tokens"], {}
    steps = [
        model.decoder(target[:, :t], encoder_out=encoded, incremental_state=state)[0]
        for t in range(1, target.size(1) + 1)
    ]
    return torch.cat(steps, dim=1)


# --- without pairs: fairseq's transformer ---------------------------------------------------------


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("embeddings", ["untied", "tied", "all", "widths"])
def test_equals_fairseq(pre_norm, embeddings):
    sizes = dict(encoder_normalize_before=pre_norm, decoder_normalize_before=pre_norm)
    sizes["share_decoder_input_output_embed"] = embeddings == "tied"
    sizes["share_all_embeddings"] = embeddings == "all"
    if embeddings == "widths":
        sizes |= dict(encoder_embed_dim=18, decoder_ffn_embed_dim=10)
    plain = build("transformer", seed=2, **sizes).eval()
    ours = build(seed=3, **UNSHARED, **sizes).eval()
    net_input = batch()
    assert not torch.allclose(logits(plain, net_input), logits(ours, net_input))
    ours.load_state_dict(plain.state_dict(), strict=True)

    source = (net_input["src_tokens"], net_input["src_lengths"])
    encoded = [m.encoder(*source)["encoder_out"][0] for m in (ours, plain)]
    seen = source[0].T.ne(dictionary().pad())
    assert_close(encoded[0][seen], encoded[1][seen], **TOLERANCE)
    outputs = [logits(m, net_input)[real(net_input)] for m in (ours, plain)]
    assert_close(*outputs, **TOLERANCE)
    for beam in (1, 5):
        for mine, theirs in zip(*[generate(m, net_input, beam) for m in (ours, plain)]):
            assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in theirs]
            for a, b in zip(mine, theirs):
                assert_close(a["positional_scores"], b["positional_scores"], **TOLERANCE)


# --- trap 1: the cache for incremental decoding ---------------------------------------------------


@pytest.mark.parametrize("shared", SHARED)
def test_incremental_equals_full(shared):
    model, net_input = build(**SHARED[shared]).eval(), batch()
    seen = real(net_input)
    full, steps = logits(model, net_input), stepwise_logits(model, net_input)
    assert_close(steps[seen], full[seen], **TOLERANCE)


@pytest.mark.parametrize("attention", ["self_attn", "encoder_attn"])
def test_shared_attention_object_would_be_seen(attention):
    """The comparison above can fail: this is the model of trap 1, fine in training."""
    model, net_input = build(**SHARED["layers"]).eval(), batch()
    full, seen = logits(model, net_input), real(net_input)
    layers = model.decoder.layers
    setattr(layers[2], attention, getattr(layers[0], attention))
    assert torch.equal(logits(model, net_input), full)
    equal = torch.allclose(stepwise_logits(model, net_input)[seen], full[seen], **TOLERANCE)
    # the keys of the encoder are the same in both layers, those of the decoder are not
    assert equal == (attention == "encoder_attn")


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("shared", SHARED)
def test_generation_equals_full(shared, beam):
    check_generation(build(**SHARED[shared]).eval(), batch(), beam, TOLERANCE)


# --- trap 2: every tensor once in a state ---------------------------------------------------------

STATES = {
    "pet": {},
    "kv": SHARED["kv"],
    "explicit": SHARED["explicit"],
    "tied": dict(share_decoder_input_output_embed=True),
    "all tied": dict(share_all_embeddings=True),
}


def parameters_in(state):
    return sum(t.numel() for n, t in state.items() if not n.endswith(("version", "_float_tensor")))


@pytest.mark.parametrize("sizes", STATES)
@pytest.mark.parametrize("form", ["once", "with copies", "after move_to_cpu"])
def test_state_round_trip(sizes, form, tmp_path):
    model, other = (build(seed=s, **STATES[sizes]).eval() for s in (1, 2))
    net_input = batch()
    expected = logits(model, net_input)
    assert not torch.allclose(logits(other, net_input), expected)

    state = model.state_dict()
    assert parameters_in(state) == sum(p.numel() for p in model.parameters())
    assert len({t.data_ptr() for t in state.values()}) == len(state)
    if form == "with copies":
        state = values(model)
        assert parameters_in(state) > sum(p.numel() for p in model.parameters())
    elif form == "after move_to_cpu":
        torch.save(utils.move_to_cpu(state), tmp_path / "state.pt")
        state = torch.load(tmp_path / "state.pt")

    other.load_state_dict(state, strict=True)
    assert torch.equal(logits(other, net_input), expected)
    assert _catalog_shared_params(other) == _catalog_shared_params(model)


def test_file_size(tmp_path):
    model = build("pet_transformer_iwslt_de_en", small=False)
    parameters = sum(p.numel() for p in model.parameters())
    assert parameters > 2_000_000
    torch.save(utils.move_to_cpu(model.state_dict()), tmp_path / "state.pt")
    assert os.path.getsize(tmp_path / "state.pt") <= 1.05 * 4 * parameters


def test_state_of_an_unshared_model_is_refused():
    model, state = build(), build("transformer").state_dict()
    before = values(model)
    message = r"encoder\.layers\.2\S+ and encoder\.layers\.0\S+ differ.*--encoder-pairs"
    with pytest.raises(UserError, match=message):
        model.load_state_dict(state)
    for name, tensor in values(model).items():
        assert torch.equal(tensor, before[name])


def test_state_that_lacks_an_owner_is_refused():
    state = build().state_dict()
    del state["encoder.layers.0.fc1.weight"]
    with pytest.raises(RuntimeError, match=r"Missing.*encoder\.layers\.0\.fc1\.weight"):
        build().load_state_dict(state, strict=True)


# --- gradients, copies, casts ---------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["pet", "kv", "one layer", "explicit"])
def test_gradient_is_the_sum_over_the_slots(shared):
    model, twin = build(**SHARED[shared]).double(), build(seed=2, **UNSHARED).double()
    twin.load_state_dict(values(model), strict=True)
    net_input = batch()
    output = logits(model, net_input)
    factors = torch.randn_like(output)
    (output * factors).sum().backward()
    (logits(twin, net_input) * factors).sum().backward()

    gradients = {n: p.grad for n, p in twin.named_parameters()}
    expected = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        expected[parameter] = expected.get(parameter, 0) + gradients[name]
    assert len(expected) < len(gradients)
    for parameter, gradient in expected.items():
        assert_close(parameter.grad, gradient)


@pytest.mark.parametrize(
    "change",
    [copy.deepcopy, lambda m: m.half(), lambda m: m.to(torch.float64), lambda m: m.to("meta")],
    ids=["deepcopy", "half", "double", "device"],
)
def test_copies_and_casts_keep_sharing(change):
    """Exactly these names, as fairseq's trainer lists them to restore them on a TPU."""
    model = build(encoder_pairs="Q1=K2 Q1=K3", decoder_pairs="O1=Oenc4")
    layer = "encoder.layers.{}.self_attn.{}_proj.{}".format
    expected = [
        [layer(0, "q", kind), layer(1, "k", kind), layer(2, "k", kind)]
        for kind in ("weight", "bias")
    ] + [
        [
            f"decoder.layers.0.self_attn.out_proj.{kind}",
            f"decoder.layers.3.encoder_attn.out_proj.{kind}",
        ]
        for kind in ("weight", "bias")
    ]
    assert sorted(_catalog_shared_params(model)) == sorted(expected)
    changed = change(model)
    assert sorted(_catalog_shared_params(changed)) == sorted(expected)
    assert not set(changed.state_dict()) & {n for names in expected for n in names[1:]}


@pytest.mark.parametrize("shared", ["pet", "explicit"])
def test_checkpointed_activations(shared):
    """Less memory, the same numbers."""
    model, other = (
        build(**SHARED[shared], checkpoint_activations=c).double() for c in (False, True)
    )
    net_input = batch()
    outputs = [logits(m, net_input) for m in (model, other)]
    assert_close(*outputs)
    factors = torch.randn_like(outputs[0])
    for output in outputs:
        (output * factors).sum().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(a.grad, b.grad)
    assert _catalog_shared_params(model) == _catalog_shared_params(other)


SEVERAL = dict(checkpoint_activations=True, distributed_world_size=2, ddp_backend="pytorch_ddp")


def test_checkpointed_activations_and_torchs_wrapper():
    with pytest.raises(UserError, match=r"^--checkpoint-activations: with --ddp-backend pytorch"):
        build(**SEVERAL)


def test_the_check_for_torchs_wrapper_draws_no_layers():
    """LayerDrop leaves layers out of an iteration in training mode, and draws for that."""
    model = build(encoder_layerdrop=0.7, decoder_layerdrop=0.7).train()
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert all(layers_share_parameters(model) for _ in range(10))
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


@pytest.mark.parametrize(
    "options",
    [
        {"checkpoint_activations": False},
        {"distributed_world_size": 1},
        {"ddp_backend": "legacy_ddp"},
        {"encoder_pairs": "none", "decoder_pairs": "none"},
    ],
)
def test_checkpointed_activations_in_several_processes(options):
    build(**SEVERAL | options)


@pytest.mark.parametrize("seed", range(3))
def test_sharing_with_layerdrop(seed):
    """LayerDrop skips layers in training, never while slots are being paired."""
    model = build(seed=seed, encoder_layerdrop=0.5, decoder_layerdrop=0.5)
    assert _catalog_shared_params(model) == _catalog_shared_params(build())


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_attention_dropout_option(p):
    """It reaches each of the 4 + 8 attentions, in training only."""
    model = build(attention_dropout=p)
    attentions = [m for m in model.modules() if isinstance(m, MultiheadAttention)]
    assert len(attentions) == 12
    x = torch.randn(5, 2, 12)
    for attention in attentions:
        first, second = (attention(x, x, x)[0] for _ in range(2))
        assert torch.equal(first, second) == (p == 0)
        attention.eval()
        first, second = (attention(x, x, x)[0] for _ in range(2))
        assert torch.equal(first, second)


# --- options, log, registry -----------------------------------------------------------------------


BAD_OPTIONS = [
    (dict(encoder_attention_heads=5), "--encoder-embed-dim 12 .*heads 5; .*--encoder-head-dim"),
    (dict(decoder_attention_heads=5), "--decoder-embed-dim 12 .*heads 5; .*--decoder-head-dim"),
    (dict(encoder_attention_heads=0), ".*--encoder-attention-heads 0"),
    (dict(encoder_head_dim=0), "--encoder-head-dim 0"),
    (dict(decoder_head_dim=-8), "--decoder-head-dim -8"),
    (dict(encoder_layers=3), "--encoder-pairs pet: .*even.*--encoder-layers is 3"),
    (dict(decoder_layers=5, decoder_pairs="kv"), "--decoder-pairs kv: .*--decoder-layers is 5"),
    (dict(encoder_pairs="L1=L9"), "--encoder-pairs: L1=L9: layer 9 is not one of 1..4"),
    (dict(decoder_pairs="pets"), "--decoder-pairs 'pets': not a preset"),
    (dict(encoder_embed_dim=18, decoder_pairs="K=Kenc"), "--decoder-pairs: K=Kenc: the shapes"),
    (dict(no_cross_attention=True), "--decoder-pairs: Qself=Qenc: .* no encoder attention"),
    (dict(cross_self_attention=True), "--cross-self-attention is not supported"),
    (dict(encoder_xformers_att_config="{}"), "--encoder-xformers-att-config is not supported"),
    (dict(decoder_xformers_att_config="{}"), "--decoder-xformers-att-config is not supported"),
    (dict(encoder_embed_dim=0), "--encoder-embed-dim 0: give 1 or more"),
    (dict(decoder_embed_dim=-12), "--decoder-embed-dim -12: give 1 or more"),
    (dict(encoder_ffn_embed_dim=0), "--encoder-ffn-embed-dim 0: give 1 or more"),
    (dict(compression_reference="lstm"), "--compression-reference lstm: .*iwslt_de_en"),
    (dict(compression_reference="nothing"), "--compression-reference nothing: "),
]


@pytest.mark.parametrize("bad, message", BAD_OPTIONS)
def test_bad_options_are_refused(bad, message):
    with pytest.raises(UserError, match=f"^{message}") as error:
        build(**bad)
    assert "\n" not in str(error.value)


def test_head_dim_frees_the_inner_width():
    model = build(
        encoder_embed_dim=13, encoder_head_dim=5, decoder_embed_dim=14, decoder_head_dim=7
    )
    shapes = {n: tuple(p.shape) for n, p in model.named_parameters(remove_duplicate=False)}
    assert shapes["encoder.layers.0.self_attn.q_proj.weight"] == (15, 13)
    assert shapes["encoder.layers.0.self_attn.out_proj.weight"] == (13, 15)
    assert shapes["decoder.layers.0.self_attn.v_proj.weight"] == (21, 14)
    assert shapes["decoder.layers.0.encoder_attn.k_proj.weight"] == (21, 13)


def test_compression_rate_in_the_log(caplog):
    caplog.set_level(logging.INFO)
    build("pet_transformer_iwslt_de_en", small=False)
    assert [r.getMessage() for r in caplog.records if "compression rate" in r.getMessage()] == [
        "layer parameters: 2,997,120 stored, 6,225,600 without sharing; "
        "compression rate 9.50% of transformer_iwslt_de_en"
    ]
    caplog.clear()
    build("pet_transformer_tiny", small=False, compression_reference="pet_transformer_tiny")
    assert "compression rate 100.00% of pet_transformer_tiny" in caplog.text


ARCHITECTURES = ["pet_transformer", "pet_transformer_iwslt_de_en", "pet_transformer_tiny"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_registry(arch):
    assert MODEL_REGISTRY["pet_transformer"] is transformer.PetTransformerModel
    assert ARCH_MODEL_REGISTRY[arch] is transformer.PetTransformerModel
    assert ARCH_CONFIG_REGISTRY[arch] is getattr(transformer, arch)


def test_help_shows_our_options():
    parser = options.get_training_parser()
    transformer.PetTransformerModel.add_args(parser.add_argument_group("model"))
    text = " ".join(parser.format_help().split())
    for option, help_text in (
        ("--encoder-pairs", "which slots of the encoder share parameters: a preset (pet, layers,"),
        ("--decoder-pairs", "which slots of the decoder share parameters: a preset (pet, layers,"),
        ("--encoder-head-dim", "width of one attention head (default: embedding width / heads)"),
        ("--decoder-head-dim", "width of one attention head (default: embedding width / heads)"),
        ("--compression-reference", "architecture whose layer parameters are 100%"),
    ):
        usage = text[text.index(f" {option} ", text.index(" model:")) :][:250]
        assert help_text in usage, option


def test_command_line_reaches_the_model():
    line = "data --arch pet_transformer_tiny --encoder-pairs none --decoder-head-dim 8"
    args = options.parse_args_and_arch(options.get_training_parser(), line.split())
    given = (args.encoder_pairs, args.decoder_pairs, args.encoder_head_dim, args.decoder_head_dim)
    assert given == ("none", "pet", None, 8)
    model = build(**vars(args), small=False)
    assert model.decoder.layers[0].self_attn.q_proj.weight.shape == (32, 64)
    assert model.encoder.layers[0].fc1 is not model.encoder.layers[2].fc1
    assert model.decoder.layers[0].fc1 is model.decoder.layers[2].fc1


@pytest.mark.parametrize("kind", ["scalar", "pq"])
def test_noise_of_quantisation_needs_layers_of_their_own(kind):
    noise = {f"quant_noise_{kind}": 0.1, "quant_noise_pq_block_size": 4}
    build(**UNSHARED, **noise)
    with pytest.raises(UserError, match=f"--quant-noise-{kind} 0.1: .*--optimizer quantised_adam"):
        build(**noise)
