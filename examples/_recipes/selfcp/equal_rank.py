"""The rank at which low-rank updates have as many parameters as what SelfCP trains."""

from collections.abc import Sequence

from pet_fairseq.errors import UserError

from .setup import Setup

Shape = tuple[int, int]  # out and in
OUTSIDE = 512  # fairseq's default of --decoder-output-dim
EMBEDDING, UPDATED = "decoder.embed_tokens.weight", (".q_proj.weight", ".v_proj.weight")


def equal_rank(width: int, maps: Sequence[Shape]) -> int:
    """The rank, 1 or more, that comes nearest to the parameters of SelfCP's tag and connector.

    A width of 4,096 and 32 layers give the 32 of the paper (SelfCP, table 2, +LoRA).

    Args:
        width: C, of the vectors that the language model reads. maps: those that are updated.
    """
    return max(1, round((width * width + 2 * width) / sum(map(sum, maps))))


def shapes_of(setup: Setup) -> tuple[int, list[Shape]]:
    """What `equal_rank` takes, of the recipe's language model.

    Raises:
        UserError: --backbone is no checkpoint, or not that of a model that can be updated.
    """
    if setup.own_backbone is None:
        given = dict(zip(setup.settings.arch, setup.settings.arch[1:]))
        width, layers = int(given["--decoder-embed-dim"]), int(given["--decoder-layers"])
        outside = int(given.get("--decoder-output-dim", OUTSIDE))
        return outside, 2 * layers * [(width, width)]
    from pet_fairseq.checkpoints.safe_loading import load_checkpoint

    path = str(setup.own_backbone)
    weights = load_checkpoint(path, "--backbone", mapped=True)["model"]
    maps = [tuple(weight.shape) for name, weight in weights.items() if name.endswith(UPDATED)]
    if EMBEDDING not in weights or not maps:
        raise UserError(
            f"--backbone {path}: holds no language model whose queries and values have maps of "
            "their own, which the row lora updates; leave the row out"
        )
    return weights[EMBEDDING].size(1), maps
