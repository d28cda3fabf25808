"""Drops the tokens that a model expects most (a baseline: LLMLingua, Jiang et al., EMNLP 2023).

Only the token level: chunk by chunk, each token is kept if its loss, given what was kept before, is
above a threshold that leaves the wanted share of all tokens so far.
"""

from collections.abc import Callable

import torch
from torch import Tensor

CHUNK = 200  # tokens


def keep_unexpected(
    tokens: Tensor, target: int, losses: Callable[[Tensor, Tensor], Tensor], chunk: int
) -> Tensor:
    """Keep about `target` of the tokens, in their order; all if there are no more.

    The threshold is the loss at place int(n r) of the n losses so far, largest first, with r the
    share to keep. The first token is always kept.

    Differs from the released code, which keeps or drops a token by the loss of the next one.

    Args:
        tokens: N. losses: from the kept tokens before and a chunk, the chunk's losses in nats.
        chunk: how many tokens one has.
    """
    if len(tokens) <= target:
        return tokens
    kept, seen = tokens[:0], torch.zeros(0, device=tokens.device)
    for text in tokens.split(chunk):
        chunk_losses = losses(kept, text).float()
        seen = torch.cat([seen, chunk_losses])
        place = max(len(seen) * target // len(tokens) - 1, 0)
        chosen = chunk_losses > seen.sort(descending=True).values[place]
        if not len(kept):
            chosen[0] = True
        kept = torch.cat([kept, text[chosen]])
    return kept
