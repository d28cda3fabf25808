"""Cutting texts that are too long."""


def cut_longest(lengths: list[int], room: int) -> list[int]:
    """Lengths of one or two sentences that fit together: the longer one is cut first.

    This is "longest_first" of the library tokenizers, with which most classifiers were trained.

    Args:
        lengths: in tokens. room: for all of them together.
    """
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    shorter = min(first, second, room // 2)
    return [room - shorter, shorter] if first > second else [shorter, room - shorter]
