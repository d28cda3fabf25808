#!/usr/bin/env python3
"""Computes what `pet-fairseq compress` would make of large teachers: sizes; nothing is trained.

    python scripts/docs/sizes.py

prints the table of docs/results/compress.md. The student is that of the default method and size;
its vocabulary is the teacher's, or one of 8,000 pieces (`--vocabulary 8000`).
"""

from pathlib import Path

from omegaconf import DictConfig

import pet_fairseq
from pet_fairseq.compress.student import MEGABYTE, choose_student
from pet_fairseq.compress.student import Size as Wanted
from pet_fairseq.compress.teacher import Teacher
from pet_fairseq.compress.training import DEFAULT_FORM, METHODS, STUDENT_FORMS
from pet_fairseq.export.size import int8_bytes
from pet_fairseq.markdown import table
from pet_fairseq.nn.architectures import Vocabularies, build_without_memory
from pet_fairseq.nn.parameter_counts import count_parameters
from pet_fairseq.pet.params import parse_model_options
from pet_fairseq.runner.fairseq_options import Options, stacks

TIED = ("--share-all-embeddings",)
POSITIONS = 1024  # of the longest sentence
PIECES = 8_000
# what the published models have: options of their architecture, and pieces of the vocabulary
TEACHERS: dict[str, tuple[Options, int]] = {
    "OPUS-MT, 6 + 6 layers of width 512": (
        ("--arch", "transformer", *stacks(6, 512, 2048, 8), *TIED),
        58_101,
    ),
    "fairseq's `transformer_wmt_en_de_big`": (
        ("--arch", "transformer_wmt_en_de_big", *TIED),
        32_768,
    ),
    "NLLB-200 distilled, 12 + 12 layers of width 1,024": (
        ("--arch", "transformer", *stacks(12, 1024, 4096, 16), *TIED),
        256_206,
    ),
}


def build(options: Options, pieces: int):
    return build_without_memory(parse_model_options(list(options)), pieces, pieces)


def make_teacher(options: Options, pieces: int) -> Teacher:
    """A teacher without a checkpoint."""
    model = build(options, pieces)
    return Teacher(
        path=Path(),
        trained=DictConfig({}),
        task=Vocabularies(pieces, pieces),  # what is read of a task
        layers=(len(model.encoder.layers), len(model.decoder.layers)),
        width=model.encoder.embed_tokens.embedding_dim,
        max_positions=(POSITIONS, POSITIONS),
        layer_parameters=count_parameters(model).layers,
        int8_bytes=int8_bytes(model),
        embedding_options=TIED,
        no_plain_form=None,
        no_ctranslate2=None,
        model=model,
    )


def row(name: str, options: Options, pieces: int) -> list[str]:
    """The cells of a teacher and its students."""
    teacher = make_teacher(options, pieces)
    student = choose_student(teacher, METHODS["distil"], Wanted(), STUDENT_FORMS[DEFAULT_FORM])
    assert teacher.int8_bytes is not None and teacher.model is not None
    model = build(student.options, pieces)
    layers = f"{len(model.encoder.layers)} + {len(model.decoder.layers)} of width {student.width}"
    sizes = (int8_bytes(model), int8_bytes(build(student.options, PIECES)))
    millions = count_parameters(teacher.model).total / 1e6
    megabytes = [f"{size / MEGABYTE:.0f}" for size in (teacher.int8_bytes, *sizes)]
    return [name, f"{millions:.0f}", megabytes[0], layers, *megabytes[1:]]


def main() -> None:
    pet_fairseq.register()
    head = ["teacher", "million parameters", "MB in int8", "its student's layers"]
    head += ["MB with the teacher's pieces", "MB with 8,000 pieces"]
    rows = [row(name, *teacher) for name, teacher in TEACHERS.items()]
    print(table(head, rows, text=(0, 3)))


if __name__ == "__main__":
    main()
