"""Patience: which layers of a student follow which of its teacher, and how far apart they are.

S. Sun et al., "Patient Knowledge Distillation for BERT Model Compression", EMNLP 2019. Differs from
the paper: all positions are compared, not only the first one, as encoder-decoders have no [CLS].
"""

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor

from pet_fairseq.errors import UserError
from pet_fairseq.nn.layers import STACKS


def last_layers(teacher_layers: int, student_layers: int) -> list[int]:
    """Teacher layers n - k + j for the student's layers j = 1..k-1; the logits teach the last."""
    first = teacher_layers - student_layers + 1
    return list(range(first, teacher_layers))


def skip_layers(teacher_layers: int, student_layers: int) -> list[int]:
    """Teacher layers ceil(j n / k) for the student's layers j = 1..k-1: spread evenly."""
    return [math.ceil(j * teacher_layers / student_layers) for j in range(1, student_layers)]


NUMBER = re.compile(r"\d{1,9}")
MAPS = {"last": last_layers, "skip": skip_layers}


def patience_layers(
    text: str, teacher: dict[str, int], student: dict[str, int]
) -> dict[str, list[int]]:
    """The teacher layers that the student's layers 1..k-1 follow, counted from 1.

    Args:
        text: the option: `last`, `skip` or a list `2,3,5`, or two of them, `2,3,5/last`, for the
            encoder and the decoder.
        teacher, student: number of layers by stack.
    Raises:
        UserError: not such a text, layers that the teacher lacks, or nothing to match.
    """
    sides = text.split("/")
    if len(sides) > 2:
        raise UserError(f"--patience-layers {text}: give one map, or two as ENCODER/DECODER")
    layers = {
        stack: _stack_layers(text, side.strip(), stack, teacher[stack], student[stack])
        for stack, side in zip(STACKS, (sides[0], sides[-1]))
    }
    if not any(layers.values()):
        raise UserError(
            "--patience-layers: nothing to match, both stacks of the student have one layer; "
            "give --encoder-layers 2 or more, or use --criterion pet_distillation"
        )
    return layers


def _stack_layers(text: str, side: str, stack: str, teacher: int, student: int) -> list[int]:
    problem = f"--patience-layers {text}: "
    if side in MAPS:
        layers = MAPS[side](teacher, student)
    elif all(NUMBER.fullmatch(part.strip()) for part in side.split(",")):
        layers = [int(part) for part in side.split(",")]
    elif not side:
        layers = []
    else:
        raise UserError(f"{problem}'{side}' is not last, skip or a list such as 2,3,5")
    if len(layers) != max(student - 1, 0):
        raise UserError(
            f"{problem}the student's {stack} has {student} layers, so list {student - 1} of the "
            f"teacher's (all but the last layer follow one), not {len(layers)}; different lists "
            "for both stacks: ENCODER/DECODER"
        )
    if side == "last" and student > teacher:
        raise UserError(
            f"{problem}the student's {stack} has {student} layers, more than the teacher's, which "
            f"has {teacher}; give skip, or list {student - 1} of the teacher's layers"
        )
    for layer in layers:
        if not 1 <= layer <= teacher:
            raise UserError(
                f"{problem}layer {layer} is not one of the teacher's {stack} layers 1..{teacher}"
            )
    return layers


def unit_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over N positions of |s/|s| - t/|t||^2, from 0 to 4, in float32 or wider; 0 without any.

    Args:
        student, teacher: N x C
    """
    wide = torch.promote_types(student.dtype, torch.float32)
    difference = F.normalize(student.to(wide), dim=-1) - F.normalize(teacher.to(wide), dim=-1)
    return difference.square().sum() / max(len(difference), 1)
