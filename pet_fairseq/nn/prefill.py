"""Filling a decoder's incremental state from many positions at once; fairseq has no hook for it."""

from torch import Tensor, nn


def prefill(decoder, tokens: Tensor, incremental_state: dict, **options) -> tuple[Tensor, dict]:
    """Run a decoder-only model over `tokens` and leave the state as if they had come one by one.

    Args:
        decoder: fairseq's Transformer decoder, or a module with its interface. tokens: B x T.
        incremental_state: gets the keys and values of all layers in place of what it held.
        options: further arguments of the decoder.
    Returns:
        what the decoder returns for all T positions: its output, and a dict with `inner_states`.
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
    """What an attention caches of its input x, T x B x C: both B x heads x T x head_dim.

    An attention unlike fairseq's has a method of this name, which also takes `positions`.
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
