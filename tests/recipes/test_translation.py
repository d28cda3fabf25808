"""The translation recipes: rows, seeds, sizes and devices as data."""

import shlex
from pathlib import Path

import pytest
from fairseq import options
from fairseq.data import Dictionary

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.parameters import architecture_counts, compression_rate
from pet_fairseq.pet.params import option_counts
from pet_fairseq.recipes.datasets import DATA_SETS
from pet_fairseq.recipes.rows import GROUPS, finished_rows
from pet_fairseq.recipes.sizes import SIZES
from pet_fairseq.recipes.stage import Output, shell_lines
from tests.recipes.paper import check_order, names, stages, trainings

pytestmark = pytest.mark.paper

pet_fairseq.register()
ALL = len(GROUPS["all"])
# the teacher; those without a warm-up; those with one; sampled heads: wide twice, tuned once; long;
# two with few bits of six students; at three rates two without and one with; of the controls seven
# without and two with a warm-up; deep-shallow of two widths distilled in two ways, the unshared
# one; two students on two mixed texts; factorised embeddings
TRAININGS = 1 + 5 + 2 * 10 + 3 + 1 + 1 + 2 * 6 + 3 + 3 * (2 + 2) + 7 + 2 * 2 + 2 * 2 + 1 + 2 * 2 + 1
LANGUAGES = ("--source-lang", "de", "--target-lang", "en")


def stages_of(name, tmp_path, *extra, **fields):
    given = LANGUAGES if name == "own_data" else ()
    return stages(name, tmp_path, *given, *extra, **fields)


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("name", names("datasets"))
def test_every_recipe_knows_every_row(name, size, tmp_path):
    found = stages_of(name, tmp_path, "--rows", "all", "--size", size)
    assert len(trainings(found)) == TRAININGS
    check_order(found)
    generated = [stage for stage in found.values() if "generate" in stage.groups]
    assert len(generated) == ALL * len(DATA_SETS[name].beams) * DATA_SETS[name].repeats
    assert all(stage.alone for stage in generated)
    assert len([stage for stage in found.values() if "validate" in stage.groups]) == ALL
    assert not any(stage.alone for stage in trainings(found))
    source, target = DATA_SETS[name].source_lang or "de", DATA_SETS[name].target_lang or "en"
    for stage in (*trainings(found), *generated):
        assert stage.option("--source-lang") == source and stage.option("--target-lang") == target
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, size",
    [*(("multi30k", size) for size in SIZES), ("wmt17_en_fi", "full"), ("wmt17_en_lv", "full")],
)
def test_fairseq_takes_every_training_command(name, size, tmp_path):
    for stage in trainings(stages_of(name, tmp_path, "--rows", "all", "--size", size)):
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        if stage.option("--arch") is None:  # the options of a checkpoint that is not there yet
            words += ["--arch", "pet_transformer"]
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=words)
        assert args.save_dir == str(stage.product.parent)


@pytest.mark.parametrize("name", ["multi30k", "wmt17_en_fi", "wmt17_en_lv"])
def test_students_have_the_size_that_is_said(name, tmp_path):
    """About 9.5% of the teacher at every size, but for WMT'17 what the thesis gives."""
    full = {"wmt17_en_fi": 23.3, "wmt17_en_lv": 5.0}.get(name, 9.5)
    for size, wanted in (("small", 9.6), ("full", full)):
        found = stages_of(name, tmp_path, "--rows", "all", "--size", size)
        teacher = option_counts(model_options(found["teacher"]))
        if size == "full":
            assert teacher.layers == architecture_counts("transformer_iwslt_de_en").layers
        for row in ("pet", "scratch", "can", "deep_shallow", "deep_shallow_kd"):
            counts = option_counts(model_options(found[f"{row}.seed1"]))
            rate = compression_rate(counts, teacher)
            assert rate == pytest.approx(wanted, rel=0.04), (size, row)


@pytest.mark.parametrize(
    "name, size",
    [*(("multi30k", size) for size in SIZES), ("wmt17_en_fi", "full"), ("wmt17_en_lv", "full")],
)
def test_other_pairs_make_students_of_the_same_size(name, size, tmp_path):
    """What the thesis holds fixed in Table 5 and section 3.1."""
    found = stages(name, tmp_path, "--rows", "table5", "layer_pairs", "--size", size)

    def layer_parameters(row):
        return option_counts(model_options(found[f"{row}.seed1"])).layers

    pet = layer_parameters("pet")
    for row in ("pet_qk", "pet_neighbours", "pet_last_three"):
        assert layer_parameters(row) == pet
    for row in ("pet_qk_crosswise", "pet_kv"):
        assert layer_parameters(row) == pytest.approx(pet, rel=1e-3)
        assert layer_parameters(row) != pet  # so the widths are needed


@pytest.mark.parametrize("size", sorted(set(SIZES) - {"tiny"}))
def test_the_sweep_has_students_at_every_rate(size, tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "figure7a", "--size", size)
    teacher = option_counts(model_options(found["teacher"]))
    rows = {stage.groups[0] for stage in trainings(found)} - {"teacher"}
    for rate in (5, 20, 40):
        for method in ("pet", "pkd", "can"):
            row = f"{method}_at{rate}"
            counts = option_counts(model_options(found[f"{row}.seed1"]))
            assert compression_rate(counts, teacher) == pytest.approx(rate, rel=0.05), row
            rows.remove(row)
    assert rows == {"pet", "pkd", "can"}
    for method, criterion in (("pkd", "patient_kd"), ("pet", "pet_distillation")):
        assert found[f"{method}_at5.seed1"].option("--criterion") == criterion
    assert found["pet_at5.seed1/warmup"].option("--criterion") == "pet_simplified_task"


@pytest.mark.parametrize(
    "size, dictionaries",
    [("small", 3864 + 3024), ("full", 8848 + 6632)],  # of Multi30k; usual ones of IWSLT'14
)
def test_the_best_student_fills_a_tenth_of_the_teachers_file(size, dictionaries, tmp_path):
    """A byte for a weight against four, everything counted; deep and shallow as `deep`."""
    found = stages("multi30k", tmp_path, "--rows", "frontier", "tenth_kd", "--size", size)

    def parameters(stage):
        counts = option_counts(model_options(stage))
        width = int(stage.option("--decoder-embed-dim") or 512)
        return counts.total + (dictionaries - 2 * 4) * width

    tenth, deep = found["tenth_kd.seed1"], found["deep_shallow_kd.seed1"]
    assert 0.93 < parameters(tenth) / (4 * parameters(found["teacher"]) / 10) < 0.985
    for option in ("--decoder-layers", "--encoder-layers"):
        if deep.option(option):
            assert tenth.option(option) == deep.option(option)


@pytest.mark.parametrize(
    "size, dictionaries", [("small", 3864 + 3024), ("full", 8848 + 6632), ("demo", 4744)]
)
def test_factorised_embeddings_leave_room_for_wider_layers(size, dictionaries, tmp_path):
    """In an equal file, everything counted."""
    found = stages("multi30k", tmp_path, "--rows", "kd", "kd_factorised", "--size", size)
    plain, narrow = found["kd.seed1"], found["kd_factorised.seed1"]

    def parameters(stage, inner):
        return option_counts(model_options(stage)).total + (dictionaries - 2 * 4) * inner

    plain_width, rank = plain.option("--decoder-embed-dim"), narrow.option("--decoder-output-dim")
    assert parameters(narrow, int(rank)) == pytest.approx(
        parameters(plain, int(plain_width)), rel=0.01
    )
    assert int(narrow.option("--decoder-embed-dim")) > 1.2 * int(plain_width)


def test_the_frontier_pairs_equal_bytes_and_arithmetic(tmp_path):
    """Twice the layers in 4 bits against PET's in 8."""
    found = stages("multi30k", tmp_path, "--rows", "frontier")
    groups = {group for stage in trainings(found) for group in stage.groups}
    assert groups == {
        *("teacher", "kd", "speed_kd", "deep_shallow_kd", "pet", "pet_patient", "kd_int8"),
        *("kd_int4", "speed_kd_int4", "pet_patient_int8", "pet_patient_int4"),
    }
    pet, unshared = (
        option_counts(model_options(found[f"{row}.seed1"])) for row in ("pet", "speed_kd")
    )
    assert unshared.layers == unshared.unshared_layers == pet.unshared_layers
    assert unshared.layers == pytest.approx(2 * pet.layers, rel=0.06)
    assert found["speed_kd.seed1"].option("--criterion") == "pet_distillation"


def test_default_rows(tmp_path):
    for name in ("multi30k", "tatoeba_en_fi", "iwslt14_de_en", "wmt17_en_lv"):
        generated = [s for s in stages(name, tmp_path).values() if "generate" in s.groups]
        assert {stage.name.split("/")[0] for stage in generated} == {
            *("teacher", "scratch.seed1", "kd.seed1", "pkd.seed1", "can.seed1"),
            *("pet.seed1", "pet_patient.seed1"),
        }


def model_options(stage):
    words = [word for word in stage.command if isinstance(word, str)]
    keep = ("--arch", "--encoder-", "--decoder-", "--share-")
    chosen, taking = [], False
    for word in words:
        if word.startswith("--"):
            taking = word.startswith(keep)
        if taking:
            chosen.append(word)
    return chosen


def test_rows_seeds_and_groups(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "teacher", "pet", "can", "--seeds", "1", "2")
    assert [s.name for s in trainings(found)] == [
        *("teacher", "can.seed1", "pet.seed1/warmup", "pet.seed1"),
        *("can.seed2", "pet.seed2/warmup", "pet.seed2"),
    ]
    assert found["can.seed2"].option("--seed") == "2"
    assert len([s for s in found.values() if "generate" in s.groups]) == 5 * 2 * 3
    tables = {f"table{n}": {"pet"} for n in (5, 6, 7, 8)}
    tables["table5"] |= {"pet_qk", "pet_qk_crosswise", "pet_kv"}
    tables["layer_pairs"] = {"pet", "pet_neighbours", "pet_last_three"}
    tables["table6"] |= {"pet_no_warmup"}
    tables["table7"] |= {"pet_project", "pet_replace"}
    tables["table8"] |= {"pet_sampled", "pet_long"}
    for table, rows in tables.items():
        found = stages("multi30k", tmp_path, "--rows", table)
        groups = {group for stage in trainings(found) for group in stage.groups}
        assert groups == rows | {"teacher"}
    with pytest.raises(UserError, match="--rows cat: there is no such row; give some of teacher"):
        stages("multi30k", tmp_path, "--rows", "pet", "cat")


def test_controls_have_the_plain_students_parameters(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "passes")
    counts = {
        row: option_counts(model_options(found[f"{row}.seed1"]))
        for row in ("kd", "kd_twice", "kd_encoder_2", "kd_encoder_4", "one_layer", "one_layer_4")
    }
    for row in ("kd_twice", "kd_encoder_2", "kd_encoder_4"):
        assert counts[row].total == counts["kd"].total
    assert counts["kd_twice"].unshared_layers == 2 * counts["kd"].layers
    assert counts["one_layer"].layers == counts["one_layer_4"].layers == counts["kd"].layers / 2
    assert counts["one_layer_4"].unshared_layers == 4 * counts["one_layer"].layers
    assert found["kd_encoder_3.seed1"].option("--encoder-pairs") == "L1=L3 L2=L4 L1=L5 L2=L6"
    assert found["kd_encoder_3.seed1"].option("--decoder-pairs") == "none"
    assert found["one_layer_4.seed1"].option("--decoder-pairs") == "L1=L2 L1=L3 L1=L4"


def test_controls_separate_the_simplified_task_from_the_loss(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "controls")
    criterion = {name: stage.option("--criterion") for name, stage in found.items()}
    for plain, pet, loss in (
        ("kd", "pet_no_warmup", "pet_distillation"),
        ("kd_warmup", "pet", "pet_distillation"),
        ("pkd", "pet_patient_no_warmup", "patient_kd"),
        ("pkd_warmup", "pet_patient", "patient_kd"),
    ):
        assert criterion[f"{plain}.seed1"] == criterion[f"{pet}.seed1"] == loss
        assert (f"{plain}.seed1/warmup" in found) == (f"{pet}.seed1/warmup" in found)
        assert (f"{plain}.seed1/warmup" in found) == plain.endswith("warmup")


def test_length_and_learning_rate_of_the_students(tmp_path):
    given = ("--rows", "kd", "pet", "--updates", "12000", "--student-lr", "0.002")
    before = stages("multi30k", tmp_path, "--rows", "kd", "pet")
    found = stages("multi30k", tmp_path, *given)
    for name in ("kd.seed1", "pet.seed1"):
        assert found[name].option("--max-update") == "12000"
        assert found[name].option("--total-num-update") == "12000"
    assert {found[f"{name}.seed1"].option("--lr") for name in ("kd", "pet", "pet")} == {"0.002"}
    assert found["pet.seed1/warmup"].option("--max-update") == "300"
    assert found["teacher"].command == before["teacher"].command
    found = stages("multi30k", tmp_path, *given, "--size", "full")
    assert found["kd.seed1"].option("--max-update") == "12000"
    assert found["kd.seed1"].option("--total-num-update") is None  # nothing falls to 0 there
    for wrong in (("--updates", "0"), ("--student-lr", "0"), ("--student-lr", "nan")):
        with pytest.raises(UserError, match=f"{wrong[0]} {wrong[1]}: give"):
            stages("multi30k", tmp_path, *wrong)


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


def test_other_options_of_the_students(tmp_path):
    given = ("--rows", "kd", "pet", "kd_int8", "--student-options", "--encoder-ffn-embed-dim 40")
    before = stages("multi30k", tmp_path, "--rows", "kd", "pet", "kd_int8")
    found = stages("multi30k", tmp_path, *given)
    for name in ("kd.seed1", "pet.seed1/warmup", "pet.seed1"):
        assert found[name].option("--encoder-ffn-embed-dim") == "40"
        assert found[name].command.count("--encoder-ffn-embed-dim") == 1
    for name in ("teacher", "kd_int8.seed1"):  # the second one has its student's model
        assert found[name].command == before[name].command


def test_fewer_pieces_in_the_demo(tmp_path):
    found = stages("demo", tmp_path, "--pieces", "2000")
    folder = tmp_path / "demo/pieces2000"
    assert found["demo-data"].option("--pieces") == "2000"
    for name in ("demo-data", "preprocess", "teacher", "kd.seed1"):
        assert found[name].product.is_relative_to(folder)
    assert stages("demo", tmp_path)["demo-data"].option("--pieces") is None
    with pytest.raises(UserError, match="--pieces 0: give 1 or more"):
        stages("demo", tmp_path, "--pieces", "0")


def test_one_dictionary_and_one_embedding(tmp_path):
    """Of every model, the teacher too, in folders of their own."""
    separate = stages("multi30k", tmp_path, "--rows", "all")
    found = stages("multi30k", tmp_path, "--rows", "all", "--joined-dictionary")
    folder = tmp_path / "multi30k/joined"
    assert found.keys() == separate.keys()
    for stage in trainings(found):
        assert "--share-all-embeddings" in stage.command
        assert stage.product.is_relative_to(folder / "small")
        assert folder in Path(stage.command[1]).parents
    assert not any("--share-all-embeddings" in stage.command for stage in trainings(separate))
    demo = stages("demo", tmp_path, "--joined-dictionary")
    assert "--joined-dictionary" in demo["preprocess"].command
    assert demo["preprocess"].product == tmp_path / "demo/joined/data/bin"
    assert "--joined-dictionary" not in stages("demo", tmp_path)["preprocess"].command


def test_one_embedding_wants_one_dictionary(tmp_path):
    data = tmp_path / "data/bin"
    data.mkdir(parents=True)
    options = ("--joined-dictionary", "--data", data.parent)
    for language in ("de", "en"):
        (data / f"dict.{language}.txt").write_text("a 1\n")
    stages("multi30k", tmp_path, *options)
    (data / "dict.en.txt").write_text("b 1\n")
    with pytest.raises(UserError, match=r"--joined-dictionary: .* a dictionary for each language"):
        stages("multi30k", tmp_path, *options)


def test_every_run_is_validated(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "teacher", "pet", "--seeds", "1", "2")
    runs = tmp_path / "multi30k/small"
    for name in ("teacher", "pet.seed1", "pet.seed2"):
        stage = found[f"{name}/validate"]
        assert stage.option("--path") == str(runs / name / "checkpoint_best.pt")
        assert stage.product == runs / name / "validate.txt" and not stage.alone


def test_a_row_brings_what_it_needs(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "pet_long")
    assert [s.name for s in trainings(found)] == [
        *("teacher", "pet.seed1/warmup", "pet.seed1", "pet_long.seed1"),
    ]
    generated = {name.split("/")[0] for name, s in found.items() if "generate" in s.groups}
    assert generated == {"teacher", "pet_long.seed1"}


def test_losses_and_starts(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "all")
    teacher = str(tmp_path / "multi30k/small/teacher/checkpoint_best.pt")
    criterion = {name: stage.option("--criterion") for name, stage in found.items()}
    for name, wanted in {
        "teacher": "label_smoothed_cross_entropy",
        "scratch.seed1": "label_smoothed_cross_entropy",
        "kd.seed1": "pet_distillation",
        "pkd.seed1": "patient_kd",
        "pet.seed1/warmup": "pet_simplified_task",
        "pet.seed1": "pet_distillation",
        "pet_patient.seed1": "patient_kd",
        "pet_sampled.seed1": "pet_distillation",
        "scratch_seqkd.seed1": "label_smoothed_cross_entropy",
    }.items():
        assert criterion[name] == wanted
        asks = wanted != "label_smoothed_cross_entropy"
        assert found[name].option("--teacher-path") == (teacher if asks else None)
    for name in ("pet", "pet_patient", "pet_qk", "pet_kv", "pet_at5", "pet_seqkd"):
        start = f"{tmp_path}/multi30k/small/{name}.seed1/warmup/checkpoint_best.pt"
        assert found[f"{name}.seed1"].option("--finetune-from-model") == start
    for pairs in ("qk", "qk_crosswise", "kv"):
        for name in (f"pet_{pairs}.seed1/warmup", f"pet_{pairs}.seed1"):
            assert found[name].option("--decoder-pairs") == pairs
    for name in ("pet_neighbours.seed1/warmup", "pet_neighbours.seed1"):
        assert found[name].option("--encoder-pairs").startswith("L1=L2 L3=L4 Q1=K2")
        assert found[name].option("--decoder-pairs") == "L1=L2 L3=L4 Qself=Qenc"
    assert found["pet_last_three.seed1"].option("--decoder-pairs") == "L2=L3 L2=L4 Qself=Qenc"
    assert found["pet_project.seed1/warmup"].option("--simplified-head") == "project"
    assert found["pet_project.seed1"].option("--simplified-head") is None
    assert found["pet_sampled.seed1"].option("--warmup-updates") == "50"
    for base, loss in (
        ("kd", "pet_distillation"),
        ("speed_kd", "pet_distillation"),
        ("pet", "pet_distillation"),
        ("pet_patient", "patient_kd"),
        ("tenth_kd", "pet_distillation"),
        ("tenth_patient", "patient_kd"),
    ):
        for bits in ("8", "4"):
            stage = found[f"{base}_int{bits}.seed1"]
            start = f"{tmp_path}/multi30k/small/{base}.seed1/checkpoint_best.pt"
            assert stage.option("--finetune-from-model") == start
            assert stage.option("--optimizer") == "quantised_adam"
            assert stage.option("--quantised-bits") == bits
            assert stage.option("--criterion") == loss
    assert Output(("model-options", f"{tmp_path}/multi30k/small/pet_sampled.seed1/sampled.pt")) in (
        found["pet_sampled.seed1"].command
    )


def test_sequence_level_rows_train_on_the_teachers_text(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "scratch_seqkd", "pet_seqkd")
    text = tmp_path / "multi30k/small/teacher_text/bin"
    assert found["teacher_text/binarise"].product == text
    assert set(found["teacher_text/binarise"].groups) == {"scratch_seqkd", "pet_seqkd"}
    command = found["teacher_text/translate"].command
    assert "--remove-bpe" not in command and "--tokenizer" not in command
    for name in ("scratch_seqkd.seed1", "pet_seqkd.seed1/warmup", "pet_seqkd.seed1"):
        assert found[name].command[1] == str(text) and text in found[name].inputs


def test_mixed_texts_are_gold_and_the_teachers(tmp_path):
    """Word-level distillation, with the updates of the student on the gold text."""
    rows = ("kd", "kd_mixed", "kd_hypotheses", "scratch_seqkd")
    found = stages("multi30k", tmp_path, "--rows", *rows)
    runs = tmp_path / "multi30k/small"
    check_order(found)
    mixed, many = found["mixed_text/binarise"], found["hypotheses_text/binarise"]
    assert "--keep-gold" in mixed.command and "--keep-gold" in many.command
    assert "--keep-gold" not in found["teacher_text/binarise"].command
    assert mixed.option("--nbest") is None and many.option("--nbest") == "5"
    assert mixed.inputs[0] == found["teacher_text/translate"].product  # translated once
    assert found["hypotheses_text/translate"].option("--nbest") == "5"
    assert found["hypotheses_text/translate"].product in many.inputs
    gold = found["kd.seed1"]
    for row, parts in (("mixed", 2), ("hypotheses", 6)):
        training = found[f"kd_{row}.seed1"]
        assert training.command[1] == str(runs / f"{row}_text/bin")
        for name in ("--criterion", "--teacher-path", "--max-update", "--arch", "--lr"):
            assert training.option(name) == gold.option(name)
        assert training.option("--teacher-cache-mb") == str(1000 * parts)
        assert found[f"kd_{row}.seed1/validate"].command[1] == str(tmp_path / "multi30k/data/bin")


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


@pytest.mark.parametrize("size, program", [("small", "fairseq-train"), ("full", "pet-fairseq")])
def test_a_gpu_is_used_in_the_precision_of_the_size(size, program, tmp_path):
    cpu = stages("multi30k", tmp_path, "--rows", "all", "--size", size)
    gpu = stages("multi30k", tmp_path, "--rows", "all", "--size", size, device="cuda")
    for found, on_cpu in ((cpu, True), (gpu, False)):
        for stage in found.values():
            if stage.command[0] == "fairseq-generate" or stage in trainings(found):
                assert ("--cpu" in stage.command) == on_cpu, stage.name
    assert {stage.command[0] for stage in trainings(cpu)} == {"fairseq-train"}
    full_precision = {stage for stage in trainings(gpu) if stage.option("--quantised-bits")}
    assert {stage.command[0] for stage in set(trainings(gpu)) - full_precision} == {program}
    assert {stage.command[0] for stage in full_precision} == {"fairseq-train"}
    half = "--fp16" in gpu["pet.seed1/beam5.1"].command
    assert half == (size == "full") and "--fp16" not in cpu["pet.seed1/beam5.1"].command


def test_beams_are_timed_in_turn(tmp_path):
    options = ("--rows", "teacher", "pet", "--beams", "2", "7", "--repeats", "2")
    found = stages("multi30k", tmp_path, *options)
    assert [name for name, stage in found.items() if stage.alone] == [
        *("teacher/beam2.1", "pet.seed1/beam2.1", "teacher/beam7.1", "pet.seed1/beam7.1"),
        *("teacher/beam2.2", "pet.seed1/beam2.2", "teacher/beam7.2", "pet.seed1/beam7.2"),
    ]
    assert found["pet.seed1/beam7.2"].product.name == "generate.beam7.2.txt"


def test_a_teacher_of_ones_own(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "teacher", "kd", "--teacher", "mine.pt")
    assert [stage.name for stage in trainings(found)] == ["kd.seed1"]
    assert found["kd.seed1"].option("--teacher-path") == "mine.pt"
    assert found["teacher/beam5.1"].option("--path") == "mine.pt"
    link = found["teacher"]  # in its place, where the report looks for it
    assert link.command[0] == "ln" and link.command[-1] == str(link.product)
    assert link.product == tmp_path / "multi30k/small/teacher/checkpoint_best.pt"
    again = stages("multi30k", tmp_path, "--rows", "kd", "--teacher", str(link.product))
    assert "teacher" not in again  # or the link would lead to itself


def test_finished_rows_and_the_report_know_what_was_trained_before(tmp_path):
    runs = tmp_path / "multi30k/small"
    for name in ("teacher", "can.seed2", "pet.seed1", "scratch.seed1"):
        (runs / name).mkdir(parents=True)
    for name in ("teacher", "can.seed2", "pet.seed1"):
        (runs / name / "checkpoint_best.pt").touch()
    record = runs / "pet.seed1/.checkpoint_best.pt.made.json"
    record.write_text('{"command": [], "inputs": {}, "finished": false}')
    assert finished_rows(runs) == {"teacher", "can"}
    report = stages("multi30k", tmp_path, "--rows", "kd")["report"]
    texts = dict(report.texts)
    assert texts[runs / "order.txt"].split() == ["teacher", "scratch", "kd", "can", "pet"]
    assert texts[runs / "can.seed2/name.txt"] == "CAN"
    options = ("--rows", "kd", "--baseline", "pet", "--significance")
    lines = shell_lines([stages("multi30k", tmp_path, *options)["report"]])
    command = shlex.split("\n".join(lines).replace("\\\n", ""))
    assert command[-3:] == ["--baseline", "pet", "--significance"]


def test_the_demo_makes_its_own_data(tmp_path):
    found = stages("demo", tmp_path)
    assert list(found)[:3] == ["demo-data", "preprocess", "teacher"]
    assert [s.name for s in trainings(found)] == [
        *("teacher", "scratch.seed1", "kd.seed1", "pet.seed1/warmup", "pet.seed1"),
    ]
    assert found["report"].command[-1] == f"{tmp_path}/demo/data/text/raw/test.en"


def test_own_data_wants_its_languages(tmp_path):
    with pytest.raises(UserError, match="--source-lang, --target-lang: give the languages"):
        stages("own_data", tmp_path)


def test_the_special_words_of_fairseq_are_four():
    """The sizes above count embeddings for these only."""
    assert len(Dictionary()) == 4
