"""The teachers of the translation recipes, ensembles and their texts, on paper."""

import pytest

import pet_fairseq
from pet_fairseq.errors import UserError
from tests.recipes.paper import check_order, stages, trainings

pytestmark = pytest.mark.paper

pet_fairseq.register()


def test_other_options_of_the_teacher(tmp_path):
    before = stages("multi30k", tmp_path, "--rows", "kd")
    given = "--dropout 0.4 --label-smoothing 0.2 --adam-betas '(0.9, 0.99)' --fp16"
    found = stages("multi30k", tmp_path, "--rows", "kd", "--teacher-options", given)
    teacher = found["teacher"]
    assert teacher.option("--dropout") == "0.4" and teacher.option("--label-smoothing") == "0.2"
    assert teacher.option("--adam-betas") == "(0.9, 0.99)" and "--fp16" in teacher.command
    assert teacher.command.count("--dropout") == 1
    assert found["kd.seed1"].command == before["kd.seed1"].command
    two = ("--rows", "kd", "--teachers", "2", "--teacher-options=--fp16")
    assert "--fp16" in stages("multi30k", tmp_path, *two)["ensemble/seed2"].command
    for wrong in ("--dropout '0.4", "dropout 0.4"):
        with pytest.raises(UserError, match=f"--teacher-options {wrong}: "):
            stages("multi30k", tmp_path, "--teacher-options", wrong)


def test_sequence_level_rows_train_on_the_teachers_text(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "scratch_seqkd", "pet_seqkd")
    text = tmp_path / "multi30k/small/teacher_text/bin"
    assert found["teacher_text/binarise"].product == text
    assert set(found["teacher_text/binarise"].groups) == {"scratch_seqkd", "pet_seqkd"}
    command = found["teacher_text/translate"].command
    assert "--remove-bpe" not in command and "--tokenizer" not in command
    for name in ("scratch_seqkd.seed1", "pet_seqkd.seed1/warmup", "pet_seqkd.seed1"):
        assert found[name].command[1] == str(text) and text in found[name].inputs


def test_an_ensemble_teaches_and_stands_beside_its_students(tmp_path):
    single = stages("multi30k", tmp_path, "--rows", "kd", "pet", "kd_int8", "scratch_seqkd")
    found = stages(
        *("multi30k", tmp_path, "--rows", "kd", "pet", "kd_int8", "scratch_seqkd"),
        *("--teachers", "3", "--seeds", "1", "2"),
    )
    check_order(found)
    runs = tmp_path / "multi30k/small/teachers3"
    members = [runs / name / "checkpoint_best.pt" for name in ("teacher", *ensemble(2, 3))]
    path = ":".join(map(str, members))
    for name in ("kd.seed2", "pet.seed1/warmup", "pet.seed1", "kd_int8.seed1"):
        assert found[name].option("--teacher-path") == path
        assert set(members) <= set(found[name].inputs)
    assert found["kd.seed1"].option("--teacher-cache-mb") == "3000"
    assert found["teacher_text/translate"].option("--path") == path
    assert found["teacher/beam5.1"].option("--path") == str(members[0])
    ensembles = found["ensemble/beam5.1"]
    assert ensembles.option("--path") == path and ensembles.alone
    assert set(members) <= set(ensembles.inputs)
    assert "ensemble/validate" not in found and "kd.seed1/validate" in found
    first, second = found["teacher"].command, found["ensemble/seed2"].command
    assert [(a, b) for a, b in zip(first, second) if a != b] == [
        (str(runs / "teacher"), str(runs / "ensemble/seed2")),
        ("1", "2"),
    ]
    link = found["ensemble/seed1"]  # so that the report finds all of them in one folder
    assert link.command[2] == "../../teacher/checkpoint_best.pt"
    assert link.product == runs / "ensemble/seed1/checkpoint_best.pt"
    assert len(trainings(found)) == 1 + 2 + 2 * (1 + 2 + 1 + 1)
    texts = dict(found["report"].texts)
    assert texts[runs / "order.txt"].split()[:2] == ["teacher", "ensemble"]
    assert single["kd.seed1"].product == tmp_path / "multi30k/small/kd.seed1/checkpoint_best.pt"


def ensemble(*seeds):
    return [f"ensemble/seed{seed}" for seed in seeds]


def test_ensembles_of_other_kinds(tmp_path):
    given = ("--rows", "kd", "--teachers", "2", "--teacher", "mine.pt")
    found = stages("multi30k", tmp_path, *given)
    other = tmp_path / "multi30k/small/teachers2/ensemble/seed2/checkpoint_best.pt"
    assert found["kd.seed1"].option("--teacher-path") == f"mine.pt:{other}"
    assert found["teacher"].command[0] == "ln"
    demo = stages("demo", tmp_path, "--teachers", "2")
    assert demo["teacher"].product.is_relative_to(tmp_path / "demo/teachers2")
    assert demo["preprocess"].product == tmp_path / "demo/data/bin"
    for wrong, message in (
        (("--teachers", "0"), "--teachers 0: give 1 or more"),
        (("--rows", "ensemble"), "--rows ensemble: say how many teachers are in it"),
        (("--rows", "pkd", "--teachers", "2"), "--teachers 2: pkd follows the layers of one"),
        (("--rows", "pet_patient_int8", "--teachers", "2"), "--teachers 2: pet_patient follows"),
    ):
        with pytest.raises(UserError, match=message):
            stages("multi30k", tmp_path, *wrong)


def test_a_teacher_of_ones_own(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "teacher", "kd", "--teacher", "mine.pt")
    assert [stage.name for stage in trainings(found)] == ["kd.seed1"]
    assert found["kd.seed1"].option("--teacher-path") == "mine.pt"
    assert found["teacher/beam5.1"].option("--path") == "mine.pt"
    link = found["teacher"]  # in its place, where the report looks for it
    assert link.command[0] == "ln" and link.words()[-1] == str(link.product)
    assert link.product == tmp_path / "multi30k/small/teacher/checkpoint_best.pt"
    again = stages("multi30k", tmp_path, "--rows", "kd", "--teacher", str(link.product))
    assert "teacher" not in again  # or the link would lead to itself
