"""The rows of the translation recipes: which models are compared.

ROWS has all of them in the order of the report; a new one needs one entry.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pet_fairseq.recipes.arguments import unknown_row
from pet_fairseq.recipes.translation import controls
from pet_fairseq.recipes.translation.first_layers import NARROW, build_narrow, from_narrow
from pet_fairseq.recipes.translation.setup import WITHOUT_SEED
from pet_fairseq.recipes.translation.sizes import RATES
from pet_fairseq.recipes.translation.trainings import (
    Builder,
    build_ensemble,
    build_teacher,
    longer,
    quantised,
    sampled,
    student,
    warmed_up,
)
from pet_fairseq.runner.fairseq_commands import BEST
from pet_fairseq.runner.record import read_record


@dataclass(frozen=True)
class Row:
    """A model of the comparison.

    Attributes:
        name, title: what options call it, and what the report calls it.
        build: makes its stages.
        needs: rows whose models it learns from or starts from.
    """

    name: str
    title: str
    build: Builder
    needs: tuple[str, ...] = ("teacher",)


# Other pairs of the four layers (PET, section 3.1), each with the matrix pairs of `pet`. Of three
# layers that share, the second one exchanges queries and keys, and the third equals the first.
NEIGHBOURS = (
    *("--encoder-pairs", "L1=L2 L3=L4 Q1=K2 K1=Q2 Q3=K4 K3=Q4"),
    *("--decoder-pairs", "L1=L2 L3=L4 Qself=Qenc"),
)
LAST_THREE = (
    *("--encoder-pairs", "L2=L3 L2=L4 Q2=K3 K2=Q3"),
    *("--decoder-pairs", "L2=L3 L2=L4 Qself=Qenc"),
)

BITS = (8, 4)  # of a weight, in rows such as `kd_int4`


def few_bits(base: str, title: str, loss: str = "distil") -> tuple[Row, ...]:
    """A row's student, trained further with its weights in 8 bits, and in 4 bits.

    Args:
        base: the name of that row. title: its title. loss: a name in LOSSES.
    """
    needs = ("teacher", base)
    return tuple(
        Row(f"{base}_int{bits}", f"{title}, {bits} bits", quantised(base, bits, loss), needs)
        for bits in BITS
    )


ROWS = (
    Row("teacher", "Teacher", build_teacher, needs=()),
    Row("ensemble", "Ensemble of teachers", build_ensemble),
    Row("scratch", "Same size, from scratch", student("gold", "plain"), needs=()),
    Row("kd", "Same size, distilled", student("distil", "plain")),
    Row("pkd", "Patient-KD", student("patient", "plain")),
    Row(NARROW, "As deep as the teacher, narrow, distilled", build_narrow),
    Row(
        "pkd_layers",
        "Patient-KD from the narrow model's layers",
        from_narrow,
        needs=("teacher", NARROW),
    ),
    Row("can", "CAN", student("gold", "can"), needs=()),
    Row("can_kd", "CAN, distilled", student("distil", "can")),
    Row("deep_shallow", "Deep-shallow", student("gold", "deep"), needs=()),
    Row("deep_shallow_kd", "Deep-shallow, distilled", student("distil", "deep")),
    Row(
        "deep_shallow_patient",
        "Deep-shallow, patient distillation",
        student("patient", "deep"),
    ),
    Row("tenth_kd", "A tenth of the file, distilled", student("distil", "tenth")),
    Row(
        "tenth_patient",
        "A tenth of the file, patient distillation",
        student("patient", "tenth"),
    ),
    Row("speed_gold", "Same speed, from scratch", student("gold", "speed"), needs=()),
    Row("speed_kd", "Same speed, distilled", student("distil", "speed")),
    Row("pet_gold", "PET, from scratch", student("gold", "pet"), needs=()),
    Row("pet", "PET", warmed_up("pet")),
    Row("pet_patient", "PET, patient distillation", warmed_up("pet", "patient")),
    Row("pet_sampled", "PET, heads sampled", sampled),
    Row("pet_long", "PET, trained as long as the sampled one", longer, needs=("teacher", "pet")),
    Row("pet_qk", "PET, decoder shares Q-K", warmed_up("pet", options=("--decoder-pairs", "qk"))),
    Row("pet_qk_crosswise", "PET, decoder shares Q-K crosswise", warmed_up("qk_crosswise")),
    Row("pet_kv", "PET, decoder shares K-V", warmed_up("kv")),
    Row("pet_neighbours", "PET, neighbouring layers share", warmed_up("pet", options=NEIGHBOURS)),
    Row("pet_last_three", "PET, the last three layers share", warmed_up("pet", options=LAST_THREE)),
    Row("pet_no_warmup", "PET, no simplified task", student("distil", "pet")),
    Row(
        "pet_project",
        "PET, simplified task by projection",
        warmed_up("pet", warmup=("--simplified-head", "project")),
    ),
    Row(
        "pet_replace",
        "PET, simplified task by another output layer",
        warmed_up("pet", warmup=("--simplified-head", "replace")),
    ),
    Row(
        "scratch_seqkd",
        "Same size, sequence-level KD",
        student("gold", "plain", teacher_text=True),
    ),
    Row(
        "speed_seqkd",
        "Same speed, sequence-level KD",
        student("gold", "speed", teacher_text=True),
    ),
    Row(
        "deep_shallow_seqkd",
        "Deep-shallow, sequence-level KD",
        student("gold", "deep", teacher_text=True),
    ),
    Row("pet_seqkd", "PET, sequence-level KD", warmed_up("pet", teacher_text=True)),
    Row("kd_warmup", "Same size, simplified task, distilled", warmed_up("plain")),
    Row("pkd_warmup", "Patient-KD after the simplified task", warmed_up("plain", "patient")),
    Row(
        "pet_patient_no_warmup",
        "PET, patient distillation, no simplified task",
        student("patient", "pet"),
    ),
    Row("kd_twice", "Same size, distilled, run twice", controls.distilled(2, 2)),
    Row("kd_encoder_2", "Same size, distilled, encoder run twice", controls.distilled(2, 1)),
    Row("kd_encoder_3", "Same size, distilled, encoder run 3 times", controls.distilled(3, 1)),
    Row("kd_encoder_4", "Same size, distilled, encoder run 4 times", controls.distilled(4, 1)),
    Row("one_layer", "1 + 1 layers, distilled", controls.distilled(1, 1, controls.ONE_LAYER)),
    Row(
        "one_layer_4",
        "1 + 1 layers, distilled, run 4 times",
        controls.distilled(4, 4, controls.ONE_LAYER),
    ),
    *few_bits("kd", "Same size, distilled"),
    *few_bits("speed_kd", "Same speed, distilled"),
    *few_bits("pet", "PET"),
    *few_bits("pet_patient", "PET, patient distillation", "patient"),
    *few_bits("tenth_kd", "A tenth of the file, distilled"),
    *few_bits("tenth_patient", "A tenth of the file, patient distillation", "patient"),
    *(
        Row(f"pkd_at{rate}", f"Patient-KD at {rate}%", student("patient", f"plain_at{rate}"))
        for rate in RATES
    ),
    *(
        Row(f"can_at{rate}", f"CAN at {rate}%", student("gold", f"can_at{rate}"), needs=())
        for rate in RATES
    ),
    *(Row(f"pet_at{rate}", f"PET at {rate}%", warmed_up(f"pet_at{rate}")) for rate in RATES),
)
BY_NAME = {row.name: row for row in ROWS}

# Names that stand for several rows: the tables of PET's thesis, its choice of layer pairs (section
# 3.1), its Figure 7a, ablations of its parts (controls, passes), sharing with or without a teacher,
# students with few bits a weight, and the frontier of size and BLEU.
GROUPS = {
    "default": ("teacher", "scratch", "kd", "pkd", "can", "pet", "pet_patient"),
    "layer_pairs": ("teacher", "pet", "pet_neighbours", "pet_last_three"),
    "figure7a": (
        "teacher",
        *(f"{m}{at}" for m in ("pkd", "can", "pet") for at in ("", *(f"_at{r}" for r in RATES))),
    ),
    "table5": ("teacher", "pet", "pet_qk", "pet_qk_crosswise", "pet_kv"),
    "table6": ("teacher", "pet", "pet_no_warmup"),
    "table7": ("teacher", "pet", "pet_project", "pet_replace"),
    "table8": ("teacher", "pet", "pet_sampled", "pet_long"),
    "controls": (
        *("teacher", "kd", "kd_warmup", "pkd", "pkd_warmup", "pet_no_warmup", "pet"),
        *("pet_patient_no_warmup", "pet_patient"),
    ),
    "passes": (
        *("teacher", "kd", "kd_twice", "kd_encoder_2", "kd_encoder_3", "kd_encoder_4"),
        *("one_layer", "one_layer_4"),
    ),
    "sharing": (
        *("teacher", "scratch", "kd", "pkd", "pkd_layers", "can", "can_kd"),
        *("speed_gold", "speed_kd", "pet_gold", "pet_no_warmup", "pet"),
    ),
    "quantised": (
        *("teacher", "kd", "kd_int8", "kd_int4"),
        *("pet_patient", "pet_patient_int8", "pet_patient_int4"),
    ),
    "frontier": (
        *("teacher", "kd", "speed_kd", "deep_shallow_kd", "pet", "pet_patient"),
        *("kd_int8", "kd_int4", "speed_kd_int4", "pet_patient_int8", "pet_patient_int4"),
    ),
    "all": tuple(row.name for row in ROWS if row.name != "ensemble"),
}


def choose_rows(names: Sequence[str], runs: Path) -> list[str]:
    """The rows that some names stand for, in the order of the report, and their teacher.

    Args:
        names: of rows or GROUPS; `finished` stands for all rows with a finished model in `runs`.
    Raises:
        UserError: an unknown name.
    """
    chosen: set[str] = set()
    for name in names:
        if name == "finished":
            chosen |= finished_rows(runs)
        elif name in GROUPS:
            chosen |= set(GROUPS[name])
        elif name in BY_NAME:
            chosen.add(name)
        else:
            choices = f"{', '.join(BY_NAME)}, or a group: {', '.join(GROUPS)}, finished"
            raise unknown_row(name, [*BY_NAME, *GROUPS], choices)
    if any("teacher" in BY_NAME[name].needs for name in chosen):
        chosen.add("teacher")  # the report compares with it
    return [row.name for row in ROWS if row.name in chosen]


def finished_rows(runs: Path) -> set[str]:
    """The rows with a finished training in `runs`."""
    return {row.name for row in ROWS if any(map(is_finished, run_folders(runs, row.name)))}


def run_folders(runs: Path, row: str) -> list[Path]:
    return [runs / row] if row in WITHOUT_SEED else sorted(runs.glob(f"{row}.seed[0-9]*"))


def is_finished(folder: Path) -> bool:
    """Whether a run's best checkpoint is there and its record, if any, says that it is finished."""
    record = read_record(folder / BEST)
    return (folder / BEST).exists() and (record is None or record.finished)
