"""The translation recipes: rows, seeds, sizes and devices as data."""

import json
import shlex
from pathlib import Path

import pytest
from fairseq import options
from pet_fairseq_recipes import SIZES, TRANSLATIONS

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.recipes.translation.rows import GROUPS, finished_rows
from pet_fairseq.runner.stage import Output, shell_lines
from tests.recipes.paper import check_order, stages, trainings

pytestmark = pytest.mark.paper

pet_fairseq.register()
ALL = len(GROUPS["all"])
# the teacher; those without a warm-up; those with one; sampled heads: wide twice, tuned once; long;
# two with few bits of six students; at three rates two without and one with; of the controls seven
# without and two with a warm-up; deep-shallow of two widths distilled in two ways; `speed_kd`; the
# distilled CAN, and two more from gold; the narrow one and that which starts from its layers
TRAININGS = 1 + 5 + 2 * 10 + 3 + 1 + 1 + 2 * 6 + 3 + 3 * (2 + 2) + 7 + 2 * 2 + 2 * 2 + 1 + 3 + 2
LANGUAGES = ("--source-lang", "de", "--target-lang", "en")
DIRECTIONS = {
    **{"demo": "fi en", "multi30k": "de en", "tatoeba_en_fi": "en fi", "cmudict": "letters phones"},
    **{"iwslt14_de_en": "de en", "iwslt14_en_de": "en de"},
    **{"wmt17_en_fi": "en fi", "wmt17_en_lv": "en lv", "own_data": "de en"},
}


def stages_of(name, tmp_path, *extra, **fields):
    given = LANGUAGES if name == "own_data" else ()
    return stages(name, tmp_path, *given, *extra, **fields)


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("name", DIRECTIONS)
def test_every_recipe_knows_every_row(name, size, tmp_path):
    found = stages_of(name, tmp_path, "--rows", "all", "--size", size)
    assert len(trainings(found)) == TRAININGS
    check_order(found)
    generated = [stage for stage in found.values() if "generate" in stage.groups]
    assert len(generated) == ALL * (1 * 2 if name == "demo" else 2 * 3)  # beams and repeats
    assert all(stage.alone for stage in generated)
    assert len([stage for stage in found.values() if "validate" in stage.groups]) == ALL
    assert not any(stage.alone for stage in trainings(found))
    source, target = DIRECTIONS[name].split()
    for stage in (*trainings(found), *generated):
        assert stage.option("--source-lang") == source and stage.option("--target-lang") == target
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, size",
    [
        *(("multi30k", size) for size in SIZES),
        *(("wmt17_en_fi", "full"), ("wmt17_en_lv", "full"), ("cmudict", "small")),
    ],
)
def test_fairseq_takes_every_training_command(name, size, tmp_path):
    for stage in trainings(stages_of(name, tmp_path, "--rows", "all", "--size", size)):
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        if stage.option("--arch") is None:  # the options of a checkpoint that is not there yet
            words += ["--arch", "pet_transformer"]
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=words)
        assert args.save_dir == str(stage.product.parent)


def test_every_data_set_is_tested():
    assert {"demo", *TRANSLATIONS} == set(DIRECTIONS)


def test_default_rows(tmp_path):
    for name in ("multi30k", "tatoeba_en_fi", "iwslt14_de_en", "wmt17_en_lv"):
        generated = [s for s in stages(name, tmp_path).values() if "generate" in s.groups]
        assert {stage.name.split("/")[0] for stage in generated} == {
            *("teacher", "scratch.seed1", "kd.seed1", "pkd.seed1", "can.seed1"),
            *("pet.seed1", "pet_patient.seed1"),
        }


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


@pytest.mark.parametrize(
    "size, rates",
    [
        ("small", {"kd": 8e-3, "pet": 8e-3, "deep_shallow_kd": 9.7e-3, "pkd_at40": 3.9e-3}),
        (
            "demo",
            {"kd": 1.4e-2, "pet": 1e-2, "tenth_kd": 1.2e-2, "kd_twice": 1e-2, "one_layer": 1.4e-2},
        ),
        ("half", {"kd": 4.4e-3, "pet": 4.4e-3, "can_kd": 6.7e-3}),  # by the wider stack
        ("full", {"kd": 1e-3, "pet": 1e-3}),  # one for all, as in the thesis
    ],
)
def test_narrow_students_learn_at_higher_rates(tmp_path, size, rates):
    found = stages("multi30k", tmp_path, "--size", size, "--rows", *rates)
    assert {row: float(found[f"{row}.seed1"].option("--lr")) for row in rates} == rates


@pytest.mark.parametrize(
    "size, rate", [("small", 3.6e-3), ("half", 2.7e-3), ("demo", 5.5e-3), ("full", 5e-4)]
)
def test_small_teachers_learn_at_the_rate_for_their_width(tmp_path, size, rate):
    found = stages("multi30k", tmp_path, "--size", size, "--rows", "teacher")
    assert float(found["teacher"].option("--lr")) == rate


def test_more_training_of_a_student_keeps_its_own_learning_rate(tmp_path):
    found = stages("multi30k", tmp_path, "--rows", "pet", "pet_sampled", "kd_int8")
    assert found["pet.seed1/warmup"].option("--lr") == "0.008"
    later = [stage for stage in trainings(found) if stage.option("--finetune-from-model")]
    rates = {stage.name: stage.option("--lr") for stage in later}
    assert rates["pet_sampled.seed1"] == rates["kd_int8.seed1"] == "2e-3"


def test_other_options_of_the_students(tmp_path):
    given = ("--rows", "kd", "pet", "kd_int8", "--student-options", "--encoder-ffn-embed-dim 40")
    before = stages("multi30k", tmp_path, "--rows", "kd", "pet", "kd_int8")
    found = stages("multi30k", tmp_path, *given)
    for name in ("kd.seed1", "pet.seed1/warmup", "pet.seed1", "kd_int8.seed1"):
        assert found[name].option("--encoder-ffn-embed-dim") == "40"
        assert found[name].command.count("--encoder-ffn-embed-dim") == 1
    assert found["teacher"].command == before["teacher"].command
    longer = ("--rows", "kd", "kd_int8", "--student-options", "--optimizer adam --max-tokens 500")
    finetuned = stages("multi30k", tmp_path, *longer)["kd_int8.seed1"]
    assert finetuned.option("--max-tokens") == "500"
    assert finetuned.option("--optimizer") == "quantised_adam"  # which makes the row


@pytest.mark.parametrize(
    "given, message",
    [
        (("--student-options", "--dropuot 0.2"), "unrecognized arguments: --dropuot 0.2$"),
        (("--student-options", "--max-tokens many"), "argument --max-tokens: .*'many'"),
        (("--teacher-options", "--optimizer none"), "argument --optimizer: .*'none'"),
        # kd's plain Transformer has no such option
        (("--student-options", "--encoder-pairs L1=L2"), "unrecognized .*--encoder-pairs L1=L2$"),
    ],
)
def test_options_that_fairseq_does_not_know_are_refused_first(given, message, tmp_path):
    with pytest.raises(UserError, match=f"--teacher-options, --student-options: .*{message}"):
        stages("multi30k", tmp_path, "--rows", "kd", "pet", "kd_int8", *given)


def test_options_of_many_trainings_are_read(tmp_path):
    """More than a command line could have."""
    given = ("--rows", "all", "--seeds", "1", "2", "3", "--student-options", "--dropout 0.1")
    assert "kd.seed3" in stages("multi30k", tmp_path, *given)


def test_rows_of_two_widths_cannot_have_one_embedding(tmp_path):
    given = ("--size", "half", "--joined-dictionary", "--rows", "kd", "pet", "--seeds", "1", "2")
    with pytest.raises(UserError, match=r"--joined-dictionary: kd, pet: .*different widths"):
        stages("multi30k", tmp_path, *given)
    widths = "--encoder-embed-dim 160 --decoder-embed-dim 160"
    assert "kd.seed2" in stages("multi30k", tmp_path, *given, "--student-options", widths)


def test_students_have_one_learning_rate_if_the_user_gives_it(tmp_path):
    rows = ("--rows", "kd", "kd_twice", "one_layer_4")
    before = stages("demo", tmp_path, *rows)
    assert before["kd.seed1"].option("--lr") != before["kd_twice.seed1"].option("--lr")
    found = stages("demo", tmp_path, *rows, "--student-lr", "1e-3")
    assert {found[f"{row}.seed1"].option("--lr") for row in rows[1:]} == {"0.001"}


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


@pytest.mark.parametrize("size, depth, kept", [("small", 3, "1,2"), ("full", 6, "1,2,3")])
def test_patience_from_the_layers_of_a_narrow_model(tmp_path, size, depth, kept):
    """Which has the student's widths and the teacher's depth; only the start differs from `pkd`."""
    found = stages("multi30k", tmp_path, "--rows", "pkd", "pkd_layers", "--size", size)
    check_order(found)
    narrow, student, plain = (found[f"{r}.seed1"] for r in ("narrow_kd", "pkd_layers", "pkd"))
    for stack in ("encoder", "decoder"):
        assert narrow.option(f"--{stack}-layers") == str(depth)
        for width in ("embed-dim", "ffn-embed-dim"):
            assert narrow.option(f"--{stack}-{width}") == plain.option(f"--{stack}-{width}")
    keep = found["pkd_layers.seed1/first-layers"]
    assert keep.inputs == (narrow.product,)
    assert keep.option("--encoder-layers") == keep.option("--decoder-layers") == kept
    assert set(student.inputs) == {*plain.inputs, keep.product}
    own = [word for word in student.command if word not in plain.command]
    assert own == [str(student.product.parent), "--finetune-from-model", str(keep.product)]


def test_the_best_checkpoint_by_bleu(tmp_path):
    """But for the simplified task, which makes no translator; scored as the test set is."""
    rows = ("--rows", "pet", "pkd", "kd_int8", "--select", "bleu")
    by_loss = stages("multi30k", tmp_path, "--rows", "pet", "pkd", "kd_int8")
    found = stages("multi30k", tmp_path, *rows)
    warmup = found.pop("pet.seed1/warmup")
    assert warmup.command == by_loss.pop("pet.seed1/warmup").command
    for stage in trainings(found):
        assert stage.option("--best-checkpoint-metric") == "bleu"
        assert {"--eval-bleu", "--maximize-best-checkpoint-metric"} <= set(stage.command)
        assert json.loads(stage.option("--eval-bleu-args"))["beam"] == 5
        assert stage.option("--eval-bleu-detok") == "moses"
        assert stage.option("--eval-bleu-detok-args") == '{"target_lang": "en"}'
        assert stage.option("--eval-bleu-remove-bpe") == "@@ "
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        words += [] if stage.option("--arch") else ["--arch", "pet_transformer"]
        args = options.parse_args_and_arch(options.get_training_parser(), input_args=words)
        assert args.eval_bleu and args.maximize_best_checkpoint_metric
    assert not any("--eval-bleu" in stage.command for stage in trainings(by_loss))
    demo = stages("demo", tmp_path, "--select", "bleu")["kd.seed1"]
    assert demo.option("--eval-bleu-detok") == "space"
    assert demo.option("--eval-bleu-remove-bpe") == "sentencepiece"
    with pytest.raises(UserError, match="--select bleu: cmudict is scored by wer; leave it out"):
        stages("cmudict", tmp_path, "--select", "bleu")


def test_tokenised_bleu_is_for_the_report(tmp_path):
    found = stages("multi30k", tmp_path, "--tokenised-bleu")
    assert found["report"].command[-1] == "--tokenised-bleu"
    with pytest.raises(UserError, match="--tokenised-bleu: cmudict has another score"):
        stages("cmudict", tmp_path, "--tokenised-bleu")


@pytest.mark.parametrize("name", ["wmt17_en_fi", "wmt17_en_lv"])
def test_large_data_are_validated_by_updates(name, tmp_path):
    for stage in trainings(stages(name, tmp_path, "--rows", "all")):
        assert stage.option("--validate-interval-updates") == "5000"
        assert stage.option("--save-interval-updates") == "5000"
        assert stage.option("--keep-interval-updates") == "1"
        epochs = stage.option("--max-epoch")
        assert epochs is None or int(stage.option("--validate-interval")) > int(epochs)
    small = stages(name, tmp_path, "--size", "small")["teacher"]
    assert small.option("--validate-interval-updates") is None


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
        "can.seed1": "label_smoothed_cross_entropy",
        "can_kd.seed1": "pet_distillation",
        "narrow_kd.seed1": "pet_distillation",
        "pkd_layers.seed1": "patient_kd",
        "speed_gold.seed1": "label_smoothed_cross_entropy",
        "pet_gold.seed1": "label_smoothed_cross_entropy",
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


def test_the_user_chooses_the_precision(tmp_path):
    options = ("--rows", "all", "--size", "full", "--precision")
    chosen = stages("multi30k", tmp_path, *options, "bf16")
    for stage in trainings(chosen):
        in_bf16 = stage.command[:2] == ("pet-fairseq", "train-bf16")
        assert in_bf16 == (stage.option("--quantised-bits") is None), stage.name
        assert "--cpu" in stage.command
    chosen = stages("multi30k", tmp_path, *options, "fp32", device="cuda")
    assert {stage.command[0] for stage in trainings(chosen)} == {"fairseq-train"}


def test_beams_are_timed_in_turn(tmp_path):
    options = ("--rows", "teacher", "pet", "--beams", "2", "7", "--repeats", "2")
    found = stages("multi30k", tmp_path, *options)
    assert [name for name, stage in found.items() if stage.alone] == [
        *("teacher/beam2.1", "pet.seed1/beam2.1", "teacher/beam7.1", "pet.seed1/beam7.1"),
        *("teacher/beam2.2", "pet.seed1/beam2.2", "teacher/beam7.2", "pet.seed1/beam7.2"),
    ]
    assert found["pet.seed1/beam7.2"].product.name == "generate.beam7.2.txt"


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
    options = ("--rows", "kd", "pet", "--baseline", "pet", "--significance")
    lines = shell_lines([stages("multi30k", tmp_path, *options)["report"]])
    command = shlex.split("\n".join(lines).replace("\\\n", ""))
    assert command[-3:] == ["--baseline", "pet", "--significance"]


def test_a_baseline_has_to_be_chosen_or_finished(tmp_path):
    with pytest.raises(UserError, match=r"--baseline can: neither one of --rows.*teacher, kd$"):
        stages("multi30k", tmp_path, "--rows", "kd", "--baseline", "can")
    gone = tmp_path / "multi30k/small/gone.seed1/generate.beam5.1.txt"  # its checkpoint is
    gone.parent.mkdir(parents=True)
    gone.touch()
    assert "report" in stages("multi30k", tmp_path, "--rows", "kd", "--baseline", "gone")
    with pytest.raises(UserError, match=r"--baseline gone\.seed1: neither"):
        stages("multi30k", tmp_path, "--rows", "kd", "--baseline", "gone.seed1")
    for baseline, folder in (("can", "can.seed2"), ("mine", "mine.seed1"), ("other", "other")):
        (tmp_path / "multi30k/small" / folder).mkdir(parents=True)
        (tmp_path / "multi30k/small" / folder / "checkpoint_best.pt").touch()
        found = stages("multi30k", tmp_path, "--rows", "kd", "--baseline", baseline)
        assert found["report"].command[-2:] == ("--baseline", baseline)


def test_cmudict_is_scored_by_its_pronunciations(tmp_path):
    found = stages("cmudict", tmp_path, "--rows", "pet", "--baseline", "pet")
    data = tmp_path / "cmudict/data"
    assert found["report"].command[-6:] == (
        *("--reference", f"{data}/raw/test.pronunciations", "--score", "wer"),
        *("--baseline", "pet"),
    )
    assert "--score" not in stages("multi30k", tmp_path)["report"].command
    generated = found["teacher/beam5.1"].command
    assert "--remove-bpe" not in generated and "--tokenizer" not in generated
    tests = ("--rows", "pet", "--significance")
    with pytest.raises(UserError, match="--significance: tests BLEU only, but cmudict"):
        stages("cmudict", tmp_path, *tests)


def test_a_data_sets_own_settings_are_those_of_one_size(tmp_path):
    def teacher(name, size):
        return stages(name, tmp_path, "--rows", "teacher", "--size", size)["teacher"].command

    assert teacher("cmudict", "small")[-1] == "20000" != teacher("multi30k", "small")[-1]
    assert teacher("cmudict", "demo")[-1] == teacher("multi30k", "demo")[-1]


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
