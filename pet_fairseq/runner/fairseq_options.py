"""Options of fairseq-train that several kinds of recipes put together."""

Options = tuple[str, ...]


def words(text: str) -> Options:
    return tuple(text.split())


def stacks(layers: int, width: int, ffn: int, heads: int) -> Options:
    """Model options of an encoder and a decoder with the same layers and widths."""
    return tuple(
        word
        for stack in ("encoder", "decoder")
        for option, value in (
            ("layers", layers),
            ("embed-dim", width),
            ("ffn-embed-dim", ffn),
            ("attention-heads", heads),
        )
        for word in (f"--{stack}-{option}", str(value))
    )


def learning_rate(width: int, arch: str) -> float:
    """The peak learning rate of a small model: 0.7 over its width, up to a limit.

    Students of width 48 and 88 and teachers of width 128 and 192 learned best near these values
    (docs/results/bytes.md); the recipes' students of width 320 on GPUs have 2e-3. PET's, which
    compute each layer twice, have a lower limit.
    """
    limit = 1e-2 if arch.startswith("pet_") else 1.4e-2
    return float(f"{min(limit, 0.7 / width):.1e}")


def updates(number: int) -> Options:
    """Options for a training of `number` updates, at the end of which the learning rate is 0."""
    return words(f"--max-update {number} --total-num-update {number}")


def rise_and_fall(number: int) -> Options:
    """As `updates`, with a learning rate that rises in the first tenth and then falls to 0."""
    return (*updates(number), "--warmup-updates", str(number // 10))


BETAS = ("--adam-betas", "(0.9, 0.98)")
PRE_NORM = words("--encoder-normalize-before --decoder-normalize-before")
AUTO = words("--confident-correct auto --confident-wrong auto")
