"""Reading many positions at once into a decoder's incremental state (no fairseq hook does that)."""

from torch import Tensor, nn


def prefill(decoder, tokens: Tensor, incremental_state: dict, **options) -> tuple[Tensor, dict]:
    """Run a decoder-only model over `tokens` and leave the state as if they had come one by one.

    Args:
        decoder: of fairseq's Transformer, or what stands for it; tokens: B x T.
        incremental_state: what it held is replaced.
    Returns:
        the decoder's output for all T positions.
    """
    output, extra = decoder(tokens, **options)
    padding = tokens.eq(decoder.padding_idx)
    for layer, x in zip(decoder.layers, extra["inner_states"]):
        if layer.normalize_before:
            x = layer.self_attn_layer_norm(x)
        state = keys_and_values(layer.self_attn, x)
        if padding.any():
            state.setdefault("prev_key_padding_mask", padding)
        layer.self_attn._set_input_buffer(incremental_state, state)
    return output, extra


def keys_and_values(attention: nn.Module, x: Tensor, *positions: slice) -> dict[str, Tensor]:
    """What an attention keeps of its input x, T x B x C: both B x heads x T x head_dim.

    An attention unlike fairseq's has a method of this name; positions: what that takes.
    """
    own = getattr(attention, "keys_and_values", None)
    if own is not None:
        return own(x, *positions)

    def split(projected: Tensor) -> Tensor:
        time, batch, _ = projected.shape
        return projected.view(time, batch, attention.num_heads, -1).permute(1, 2, 0, 3)

    return {
        "prev_key": split(attention.k_proj(x)),
        "prev_value": split(attention.v_proj(x)),
    }
