"""CAN: layers against loops over heads and queries, decoding, masks, sizes, options."""

import math

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from torch.testing import assert_close

from pet_fairseq.baselines import can
from pet_fairseq.errors import UserError
from pet_fairseq.nn.parameter_counts import architecture_counts, compression_rate
from tests.generation import check_generation
from tests.helpers import batch, dictionary
from tests.helpers import build as build_any

TOLERANCE = dict(rtol=1e-5, atol=1e-5)  # fp32
SIZES = {
    "equal widths": {},
    "wide values": dict(decoder_ffn_embed_dim=33),
    "unequal widths": dict(encoder_embed_dim=15, share_decoder_input_output_embed=True),
    "one layer": dict(decoder_layers=1, decoder_attention_heads=1),
}


def build(**options):
    return build_any("can_transformer", **dict(decoder_ffn_embed_dim=18) | options)


def logits(model, net_input):
    return model(**net_input)[0]


def encode(model, net_input):
    return model.encoder(net_input["src_tokens"], net_input["src_lengths"])


def real(net_input):
    """Positions of the target that are not padding: B x T."""
    return net_input["prev_output_tokens"] != dictionary().pad()


# --- a slow layer ---------------------------------------------------------------------------------


def affine(module, vector):
    return module.weight @ vector + module.bias


def layer_norm(module, vector):
    centred = vector - vector.mean()
    return centred / (centred.pow(2).mean() + module.eps).sqrt() * module.weight + module.bias


def attend_by_loops(layer, heads, t, normed, source, source_is_padding):
    """The attention of target position t of one sentence, a list of source weights per head.

    normed: vectors of the target, source: of the encoder, both lists.
    """
    attention = layer.attention
    context, weights_of_heads = [], []
    query = affine(attention.q_proj, normed[t])
    visible = [(attention.source_k_proj, attention.source_v_proj, h) for h in source]
    hidden = list(source_is_padding)
    visible += [(attention.k_proj, attention.v_proj, x) for x in normed]
    hidden += [i > t for i in range(len(normed))]
    for head in range(heads):

        def part(vector, head=head):
            width = len(vector) // heads
            return vector[head * width : (head + 1) * width]

        scores = []
        for (to_key, _, vector), is_hidden in zip(visible, hidden):
            key = part(affine(to_key, vector))
            score = (part(query) * key).sum().item() / math.sqrt(len(key))
            scores.append(-math.inf if is_hidden else score)
        highest = max(scores)
        powers = [math.exp(score - highest) for score in scores]
        weights = [power / sum(powers) for power in powers]
        values = [part(affine(to_value, vector)) for _, to_value, vector in visible]
        context.append(sum(w * value for w, value in zip(weights, values)))
        weights_of_heads.append(weights[: len(source)])
    return torch.cat(context), weights_of_heads


def layer_by_loops(layer, heads, x, encoder_out, padding_mask):
    """T x B x C to T x B x C."""
    output = torch.empty_like(x)
    for b in range(x.size(1)):
        normed = [layer_norm(layer.layer_norm, vector) for vector in x[:, b]]
        for t, vector in enumerate(normed):
            context, _ = attend_by_loops(
                layer, heads, t, normed, list(encoder_out[:, b]), padding_mask[b].tolist()
            )
            inner = (context + affine(layer.fc1, vector)).clamp(min=0)
            output[t, b] = x[t, b] + affine(layer.fc2, inner)
    return output


@pytest.mark.parametrize("sizes", SIZES)
@torch.no_grad()
def test_decoder_equals_loops(sizes):
    model, net_input = build(**SIZES[sizes]).double().eval(), batch()
    encoded = encode(model, net_input)
    output, extra = model.decoder(net_input["prev_output_tokens"], encoded)
    x, padding = extra["inner_states"][0], encoded["encoder_padding_mask"][0]
    assert padding.any()
    heads = model.decoder.layers[0].attention.num_heads
    for layer in model.decoder.layers:
        x = layer_by_loops(layer, heads, x, encoded["encoder_out"][0], padding)
    expected = torch.empty_like(output)
    for t, rows in enumerate(x):
        for b, vector in enumerate(rows):
            final = layer_norm(model.decoder.layer_norm, vector)
            expected[b, t] = model.decoder.output_projection.weight @ final
    assert_close(output[real(net_input)], expected[real(net_input)])


@torch.no_grad()
def test_returned_weights_are_those_on_the_source():
    model, net_input = build().double().eval(), batch()
    encoded = encode(model, net_input)
    _, extra = model.decoder(net_input["prev_output_tokens"], encoded)
    weights = extra["attn"][0]  # B x T x S, the mean over the heads
    layer, x = model.decoder.layers[-1], extra["inner_states"][-2]
    b, t = 1, 4
    normed = [layer_norm(layer.layer_norm, vector) for vector in x[:, b]]
    source, padding = encoded["encoder_out"][0][:, b], encoded["encoder_padding_mask"][0][b]
    _, expected = attend_by_loops(layer, 3, t, normed, list(source), padding.tolist())
    assert_close(weights[b, t], torch.tensor(expected, dtype=weights.dtype).mean(dim=0))
    assert 0 < weights[b, t].sum() < 1


# --- masks ----------------------------------------------------------------------------------------


def test_the_future_does_not_change_the_past():
    model, net_input = build().eval(), batch((5, 5), (6, 6))
    before = logits(model, net_input)
    net_input["prev_output_tokens"][:, 4:] = 9
    after = logits(model, net_input)
    assert torch.equal(after[:, :4], before[:, :4])
    assert not torch.allclose(after[:, 4:], before[:, 4:])


def test_padding_changes_nothing():
    """Neither its amount on either side nor what the encoder says there."""
    model, net_input = build().eval(), batch()
    expected, seen = logits(model, net_input), real(net_input)
    pad = dictionary().pad()
    wider = {
        **net_input,
        "src_tokens": torch.nn.functional.pad(net_input["src_tokens"], (3, 0), value=pad),
        "prev_output_tokens": torch.nn.functional.pad(
            net_input["prev_output_tokens"], (0, 2), value=pad
        ),
    }
    assert_close(logits(model, wider)[:, :-2][seen], expected[seen], **TOLERANCE)
    encoded = encode(model, net_input)
    padding = encoded["encoder_padding_mask"][0].T  # S x B
    encoded["encoder_out"][0][padding] = 1e3 * torch.randn(int(padding.sum()), 12)
    changed = model.decoder(net_input["prev_output_tokens"], encoded)[0]
    assert torch.equal(changed[seen], expected[seen])


def test_target_padded_on_the_left():
    """As with --left-pad-target: the padded positions are no keys."""
    model = build(no_token_positional_embeddings=True).eval()
    net_input = batch((5,), (4,))
    expected = logits(model, net_input)
    pad = torch.full((1, 3), dictionary().pad())
    tokens = torch.cat([pad, net_input["prev_output_tokens"]], dim=1)
    shifted = logits(model, {**net_input, "prev_output_tokens": tokens})
    assert_close(shifted[:, 3:], expected, **TOLERANCE)


# --- decoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES)
def test_incremental_equals_full(sizes):
    model, net_input = build(**SIZES[sizes]).eval(), batch()
    target, state = net_input["prev_output_tokens"], {}
    encoded = encode(model, net_input)
    steps = [
        model.decoder(target[:, : t + 1], encoder_out=encoded, incremental_state=state)[0]
        for t in range(target.size(1))
    ]
    seen = real(net_input)
    assert_close(torch.cat(steps, 1)[seen], logits(model, net_input)[seen], **TOLERANCE)


@pytest.mark.parametrize("beam", [1, 3])
def test_incremental_with_moving_beams_and_leaving_sentences(beam):
    """Each step is compared with a full pass over what the beams hold by then."""
    model, net_input = build().eval(), batch((5, 2, 7, 4), (1, 1, 1, 1))
    encoded = encode(model, net_input)
    rows = torch.arange(4).repeat_interleave(beam)
    encoded = model.encoder.reorder_encoder_out(encoded, rows)
    tokens, state = net_input["prev_output_tokens"][rows], {}
    # after each step: which sentences stay
    for staying in ([0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 3], [2], [0]):
        output = model.decoder(tokens, encoder_out=encoded, incremental_state=state)[0]
        full = model.decoder(tokens, encoder_out=encoded)[0][:, -1:]
        assert_close(output, full, **TOLERANCE)
        moves = [[s * beam + int(m) for m in torch.randint(beam, (beam,))] for s in staying]
        order = torch.tensor(moves).flatten()
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoded = model.encoder.reorder_encoder_out(encoded, order)
        words = torch.randint(4, 20, (len(order), 1))
        tokens = torch.cat([tokens[order], words], dim=1)


def test_source_is_read_once_and_stays_when_beams_move():
    model, net_input, beam = build().eval(), batch(), 3
    rows = torch.arange(4).repeat_interleave(beam)
    encoded = model.encoder.reorder_encoder_out(encode(model, net_input), rows)
    state, target = {}, net_input["prev_output_tokens"][rows]
    model.decoder(target[:, :1], encoded, state)
    attention = model.decoder.layers[0].attention
    key = attention.get_incremental_state(state, "source")["prev_key"]
    within = rows * beam + torch.randint(beam, (4 * beam,))
    attention.reorder_incremental_state(state, within)
    assert attention.get_incremental_state(state, "source")["prev_key"] is key
    encoded["encoder_out"][0] = torch.full_like(encoded["encoder_out"][0], math.nan)
    assert torch.isfinite(model.decoder(target[:, :2], encoded, state)[0]).all()
    leaving = torch.tensor([0, 1, 2, 9, 10, 11])
    attention.reorder_incremental_state(state, leaving)
    assert torch.equal(attention.get_incremental_state(state, "source")["prev_key"], key[leaving])


@pytest.mark.parametrize("beam", [1, 4])
def test_generation_equals_full(beam):
    check_generation(build().eval(), batch(), beam, TOLERANCE)


# --- training -------------------------------------------------------------------------------------


def test_gradients_reach_every_parameter_and_are_right():
    model, net_input = build(decoder_layers=2).double(), batch()
    seen = real(net_input)
    factors = torch.randn(int(seen.sum()), len(dictionary()), dtype=torch.float64)

    def loss():
        return (logits(model, net_input)[seen].log_softmax(-1) * factors).sum()

    loss().backward()
    for name, parameter in model.named_parameters():
        i = torch.randint(parameter.numel(), ())
        if "embed_tokens" in name:  # a row that is surely in use
            i = dictionary().eos() * parameter.size(1)
        flat, step, values = parameter.detach().view(-1), 1e-6, []
        for sign in (1, -2):
            flat[i] += sign * step
            values.append(loss().item())
        flat[i] += step
        numeric = (values[0] - values[1]) / (2 * step)
        assert parameter.grad.view(-1)[i].item() == pytest.approx(numeric, rel=1e-4, abs=1e-5), name
        assert parameter.grad.abs().sum() > 0 or "k_proj.bias" in name, name


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "activation_dropout"])
def test_dropouts_act_in_training_only(option):
    model, net_input = build(**{option: 0.5}, encoder_layers=0), batch()
    target = net_input["prev_output_tokens"]
    for training in (True, False):
        model.train(training)
        encoded = encode(model.eval(), net_input)
        model.train(training)
        outputs = [model.decoder(target, encoded)[0] for _ in range(2)]
        assert torch.equal(*outputs) != training


def test_checkpointed_activations():
    """Less memory, the same numbers."""
    model, other = (build(checkpoint_activations=c).double() for c in (False, True))
    net_input = batch()
    outputs = [logits(m, net_input) for m in (model, other)]
    assert_close(*outputs)
    factors = torch.randn_like(outputs[0])
    for output in outputs:
        (output * factors).sum().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(a.grad, b.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    model, net_input = build(), batch()
    expected = logits(model, net_input)[real(net_input)]
    output = logits(model.to(dtype), net_input)[real(net_input)]
    assert output.dtype == dtype
    assert_close(output.float(), expected, rtol=0.1, atol=0.5)
    output.float().log_softmax(-1)[:, 7].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


# --- sizes, options, registry ---------------------------------------------------------------------


def numbers(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("d, v, e", [(12, 18, 12), (12, 33, 12), (9, 6, 21)])
def test_parameters_of_a_layer(d, v, e):
    model = build(decoder_embed_dim=d, decoder_ffn_embed_dim=v, encoder_embed_dim=e)
    if e == d:
        formula = 3 * d**2 + 4 * d * v + 6 * d + 3 * v
    else:
        formula = 2 * d**2 + e * d + 3 * d * v + e * v + 6 * d + 3 * v
    assert [numbers(layer) for layer in model.decoder.layers] == [formula] * 4


def test_rate_of_the_named_size():
    counts = architecture_counts("can_iwslt_de_en")
    d, f = 208, 416
    encoder = 6 * (4 * d**2 + 2 * d * f + 9 * d + f)
    assert counts.layers == encoder + 2 * (3 * d**2 + 4 * d * f + 6 * d + 3 * f)
    rate = compression_rate(counts, architecture_counts("transformer_iwslt_de_en"))
    assert rate == pytest.approx(9.66, abs=0.005)


@pytest.mark.parametrize("arch", ["can_transformer", "can_iwslt_de_en"])
def test_registry(arch):
    assert ARCH_MODEL_REGISTRY[arch] is can.CanTransformerModel
    assert ARCH_CONFIG_REGISTRY[arch] is getattr(can, arch)
    model = build_any(arch, small=False, encoder_layers=1, decoder_layers=1)
    assert model.encoder.layer_norm is not None and model.decoder.layer_norm is not None
    tied = model.decoder.output_projection.weight is model.decoder.embed_tokens.weight
    assert tied == (arch == "can_iwslt_de_en")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (dict(no_cross_attention=True), "--no-cross-attention is not supported by can_transformer"),
        (dict(cross_self_attention=True), "--cross-self-attention is not supported"),
        (dict(no_decoder_final_norm=True), "--no-decoder-final-norm is not supported"),
        (dict(quant_noise_pq=0.1), "--quant-noise-pq is not supported"),
        (dict(base_layers=1), "--base-layers is not supported"),
        (dict(decoder_normalize_before=False), ".*give --decoder-normalize-before"),
        (dict(decoder_attention_heads=0), "--decoder-attention-heads 0: give 1 or more"),
        (
            dict(decoder_embed_dim=14),
            "--decoder-embed-dim 14 is not a multiple of --decoder-attention-heads 3",
        ),
        (dict(decoder_ffn_embed_dim=20), "--decoder-ffn-embed-dim 20 is not a multiple"),
        (dict(encoder_embed_dim=14), "--encoder-embed-dim 14 is not a multiple"),
    ],
)
def test_bad_options_are_refused(bad, message):
    with pytest.raises(UserError, match=f"^{message}") as error:
        build(**bad)
    assert "\n" not in str(error.value)
