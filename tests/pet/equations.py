"""The four-class task as loops, written from the thesis (PET, section 3.2)."""

import math


def softmax(logits):
    highest = max(logits)
    powers = [math.exp(z - highest) for z in logits]
    return [p / sum(powers) for p in powers]


def four_probs(logits, gold):
    """Eq. 3.1-3.3 in float64; what is left of 1 is summed from the other words."""
    p = softmax(logits)
    best = p.index(max(p))
    not_c = sum(x for w, x in enumerate(p) if w != best)
    not_r = sum(x for w, x in enumerate(p) if w != gold)
    c, r = p[best], p[gold]
    return [c * r, not_c * r, c * not_r, not_c * not_r]


def class_by_table(teacher_probs, gold, eps1, eps2):
    """Table 2, word for word."""
    top = max(teacher_probs)
    if teacher_probs.index(top) == gold:
        return 0 if top >= eps1 else 1
    return 2 if top >= eps2 else 3
