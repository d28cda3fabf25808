"""Many positions at once with a decoder's incremental state; fairseq's decoder takes one."""

from contextlib import ExitStack
from typing import Optional

import torch
from torch import Tensor, nn

from pet_fairseq.nn.attention import split_heads
from pet_fairseq.nn.hooks import forward_hooks, given_arguments


def prefill(
    decoder,
    tokens: Tensor,
    incremental_state: dict,
    padded: Optional[bool] = None,
    **options,
) -> tuple[Tensor, dict]:
    """Run a decoder-only model over `tokens` and leave the state as if they had come one by one.

    Args:
        decoder: fairseq's Transformer decoder, or a module with its interface. tokens: B x T.
        incremental_state: gets the keys and values of all layers in place of what it held.
        padded: whether some of the tokens are padding, for callers who know it; None waits for the
            device to find out.
        options: further arguments of the decoder.
    Returns:
        what the decoder returns for all T positions: its output, and a dict with `inner_states`.
    """
    output, extra = decoder(tokens, **options)
    padding = tokens.eq(decoder.padding_idx)
    if padded is None:
        padded = bool(padding.any())
    for layer, x in zip(decoder.layers, extra["inner_states"]):
        if layer.normalize_before:
            x = layer.self_attn_layer_norm(x)
        state = keys_and_values(layer.self_attn, x)
        if padded:
            state.setdefault("prev_key_padding_mask", padding)
        layer.self_attn._set_input_buffer(incremental_state, state)
    return output, extra


def read_on(
    decoder, read: Tensor, tokens: Tensor, incremental_state: dict, **options
) -> tuple[Tensor, dict]:
    """Run a decoder-only model over `tokens`, which follow those in its incremental state.

    Gradients reach `tokens` alone if the state holds tensors without gradient.

    Args:
        decoder: as for `prefill`. read: B x P, the tokens whose keys and values the state holds.
        tokens: B x T, padded on the right. Positions skip the padding between both, but rotary ones
            count it: pad `read` on the left for them.
        incremental_state: gets the keys and values of `tokens`, too.
        options: further arguments of the decoder.
    Returns:
        what the decoder returns for the T positions.
    """
    (_, past), (_, time) = read.shape, tokens.shape
    future = torch.full((time, past + time), -torch.inf, device=tokens.device).triu(past + 1)
    future = future.to(decoder.embed_tokens.weight.dtype)
    with ExitStack() as hooks:
        # the decoder is not given the state: it would read the last token alone
        for layer in decoder.layers:
            given = {"incremental_state": incremental_state, "attn_mask": future}
            hooks.enter_context(given_arguments(layer.self_attn, **given))
        if decoder.embed_positions is not None:
            positions = decoder.embed_positions(torch.cat([read, tokens], dim=1))[:, past:]
            hooks.enter_context(forward_hooks((decoder.embed_positions, lambda *_: positions)))
        return decoder(tokens, **options)


def keys_and_values(attention: nn.Module, x: Tensor, *positions: slice) -> dict[str, Tensor]:
    """What an attention caches of its input x, T x B x C: both B x heads x T x head_dim.

    An attention unlike fairseq's has a method of this name, which also takes `positions`.
    """
    own = getattr(attention, "keys_and_values", None)
    if own is not None:
        return own(x, *positions)

    return {
        "prev_key": split_heads(attention.k_proj(x), attention.head_dim),
        "prev_value": split_heads(attention.v_proj(x), attention.head_dim),
    }
