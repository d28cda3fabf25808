"""Variator's recipes as data."""

from pathlib import Path

import pytest
from fairseq import options
from pet_fairseq_recipes.variator.glue import CLASSES
from pet_fairseq_recipes.variator.rows import BY_NAME

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface.bert import write_bert
from tests.recipes.paper import check_order, stages, trainings

pytestmark = pytest.mark.paper

pet_fairseq.register()
NAMES = ("multi30k_variator", "glue", "squad")
ALL = tuple(BY_NAME)


def arguments(name):
    return ("--task", "rte") if name == "glue" else ()


@pytest.mark.parametrize("form", ["classes", "text"])
@pytest.mark.parametrize("task", list(CLASSES))
def test_glue_with_pre_training(task, form, tmp_path):
    found = stages("glue", tmp_path, "--task", task, "--form", form, "--rows", *ALL)
    check_order(found)
    # the model twice; five ratios and three forms and two sites twice; the second step of both
    # lambdas and of what is not pre-trained; the competitors once, and three of them twice
    assert len(trainings(found)) == 2 + 2 * (5 + 2 + 2) + 3 + 1 + 2 * 3
    raw = "masked_lm" if form == "classes" else "span_masked_lm"
    on_raw = [s for s in trainings(found) if s.option("--task") == raw]
    assert len(on_raw) == 1 + 9 + 3 and all(s.command[1].endswith("raw_text") for s in on_raw)
    classes = found["backbone"].option("--num-classes")
    assert classes == (str(CLASSES[task]) if form == "classes" else None)
    score = "classes" if form == "classes" else "accuracy"
    results = [s for name, s in found.items() if name.endswith("/result")]
    assert len(results) == len(ALL) and {s.command[2] for s in results} == {score}
    measured = {"mrpc": "equivalent", "qqp": "duplicate", "cola": "acceptable"}
    if form == "classes":  # GLUE's F1 and Matthews' correlation
        assert {s.option("--positive-class") for s in results} == {measured.get(task)}
    assert found["lambda05"].option("--task-loss-weight") == "0.5"
    assert found["step1.k4"].groups == ("k4", "no_adaptation", "lambda01", "lambda05")
    assert list(tmp_path.iterdir()) == []


def test_a_task_of_ones_own_has_the_classes_of_its_data(tmp_path):
    own = ("glue", tmp_path, "--task", "own", "--rows", "backbone")
    with pytest.raises(UserError, match=r"--task own: .*own/data/classes\.txt.* --data"):
        stages(*own)
    data = tmp_path / "glue/own/data"
    data.mkdir(parents=True)
    (data / "classes.txt").write_text("a 3\nb 4\nc 1\nd 1\n")
    assert stages(*own)["backbone"].option("--num-classes") == "4"
    found = stages(*own, "--form", "text")
    assert found["backbone"].option("--task") == "translation"


@pytest.mark.parametrize("name", NAMES)
def test_fairseq_takes_every_training_command(name, tmp_path):
    parser = options.get_training_parser
    for stage in trainings(stages(name, tmp_path, *arguments(name))):
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        task = stage.option("--task")
        args = options.parse_args_and_arch(parser(task), input_args=words)
        assert args.save_dir == str(stage.product.parent)


@pytest.mark.parametrize("name", NAMES)
def test_no_training_is_tied_to_the_cpu(name, tmp_path):
    for device in ("cpu", "cuda"):
        found = stages(name, tmp_path, *arguments(name), device=device)
        for stage in found.values():
            if stage.command[0].startswith("fairseq-"):
                assert ("--cpu" in stage.command) == (device == "cpu"), stage.name
            if stage.option("--device"):
                assert stage.option("--device") == device


def test_plugins_start_from_those_of_the_pre_trained_model(tmp_path):
    found = stages("glue", tmp_path, "--task", "sst2", "--rows", "k8", "mean")
    runs = tmp_path / "glue/sst2/classes"
    for kind in ("k8", "mean"):
        first, moved, then = found[f"step1.{kind}"], found[f"step1.{kind}/moved"], found[kind]
        assert first.option("--backbone-path") == f"{runs}/pretrained/checkpoint_best.pt"
        assert moved.command[2] == str(first.product)
        assert then.option("--finetune-from-model") == str(moved.product)
        assert then.option("--backbone-path") == f"{runs}/backbone/checkpoint_best.pt"
        assert first.option("--compression-ratio") == then.option("--compression-ratio")
    assert found["mean"].option("--compression") == "mean"
    for name in ("backbone", "backbone/result"):  # what the table compares to
        assert name in found


BUDGET = ("--max-update", "--total-num-update", "--warmup-updates", "--max-tokens")


@pytest.mark.parametrize(
    "row, arch, size",
    [
        ("narrow_ffn", "narrow_ffn", ("--compression-ratio", "4")),
        ("first_3", "first_layers", ("--kept-layers", "3")),
        ("first_4", "first_layers", ("--kept-layers", "4")),
    ],
)
def test_students_are_pre_trained_as_long_as_plugins(row, arch, size, tmp_path):
    for recipe in (
        ("glue", "--task", "sst2"),
        ("glue", "--task", "rte", "--form", "text"),
        ("squad",),
    ):
        found = stages(*recipe[:1], tmp_path, *recipe[1:], "--rows", "k4", row)
        first, then, plugins = (found[n] for n in (f"step1.{row}", row, "step1.k4"))
        for stage in (first, then):
            assert stage.option("--arch") == arch and stage.option(size[0]) == size[1]
        for option in (*BUDGET, "--task", "--backbone-path"):
            assert first.option(option) == plugins.option(option)
        for option in BUDGET:
            assert then.option(option) == found["k4"].option(option)
        assert then.option("--finetune-from-model") == str(first.product)
        assert first.product in then.inputs


def test_seeds_have_folders_of_their_own(tmp_path):
    glue = ("glue", tmp_path, "--task", "sst2", "--rows", "k4", "first_3")
    plain, second = stages(*glue), stages(*glue, "--seed", "2")
    assert list(plain) == list(second)
    assert {s.option("--seed") for s in trainings(plain)} == {None}
    assert {s.option("--seed") for s in trainings(second)} == {"2"}
    for name, stage in second.items():
        folder = stage.product.relative_to(tmp_path / "glue/sst2/classes.seed2")
        assert plain[name].product == tmp_path / "glue/sst2/classes" / folder
    given = stages(*glue, "--seed", "2", "--runs", tmp_path / "here")
    assert given["k4"].product.is_relative_to(tmp_path / "here")


@pytest.mark.parametrize("name", ["glue", "squad"])
def test_a_given_model_is_the_one_that_raw_text_is_for(name, tmp_path):
    options = (*arguments(name), "--rows", "k4", "--backbone", "model.pt")
    found = stages(name, tmp_path, *options)
    assert [s.name for s in trainings(found)] == ["step1.k4", "k4"]
    given = {name: found[name].command[2] for name in ("pretrained", "backbone")}
    assert given == dict.fromkeys(given, str(Path("model.pt").resolve()))
    found = stages(name, tmp_path, *options, "--pretrained", "before.pt")
    assert found["pretrained"].command[2] == str(Path("before.pt").resolve())
    assert found["backbone"].command[2] == str(Path("model.pt").resolve())


def test_without_raw_text_plugins_are_only_adapted(tmp_path):
    rows = [row for row in ALL if row != "no_adaptation"]
    found = stages("multi30k_variator", tmp_path, "--rows", *rows, "--backbone", "model.pt")
    assert len(trainings(found)) == 5 + 2 + 1 + 2 + 2 + 4
    assert not any("move-plugins" in stage.command for stage in found.values())
    assert [s.name for s in found.values() if s.command[0] == "ln"] == ["backbone"]
    with pytest.raises(UserError, match="--rows no_adaptation: needs pre-training on raw text"):
        stages("multi30k_variator", tmp_path, "--rows", "no_adaptation")
    (tmp_path / "glue/rte/data/classes").mkdir(parents=True)  # prepared without RAW_TEXT
    assert "pretrained" not in stages("glue", tmp_path, "--task", "rte")
    (tmp_path / "glue/rte/data/raw_text").mkdir()
    assert "pretrained" in stages("glue", tmp_path, "--task", "rte")


@pytest.mark.parametrize("name", ["squad", "multi30k_variator"])
def test_a_length_of_no_tokens_is_refused(name, tmp_path):
    with pytest.raises(UserError, match="--length 0: give 1 or more"):
        stages(name, tmp_path, "--length", "0")


def test_first_steps_of_another_task(tmp_path):
    (tmp_path / "glue/rte/data/classes").mkdir(parents=True)  # prepared without RAW_TEXT
    rows = ("--rows", "k4", "narrow_ffn", "first_3", "no_adaptation", "token_pruning")
    glue = ("glue", tmp_path, "--task", "rte", *rows, "--first-steps", "theirs")
    with pytest.raises(UserError, match=r"--first-steps: .* by --bert or --pretrained"):
        stages(*glue)
    found = stages(*glue, "--pretrained", "model.pt")
    check_order(found)
    tuned = ["backbone", "k4", "token_pruning", "narrow_ffn", "first_3"]
    assert [s.name for s in trainings(found)] == tuned
    for kind in ("k4", "narrow_ffn", "first_3"):
        first = found[f"step1.{kind}"]
        theirs = Path("theirs").resolve() / f"step1.{kind}/checkpoint_best.pt"
        assert first.command[:3] == ("ln", "-sf", str(theirs))
    assert found["step1.k4/moved"].inputs[0] == found["step1.k4"].product
    assert found["first_3"].option("--finetune-from-model") == str(found["step1.first_3"].product)


def test_glue_from_a_bert(tmp_path):
    write_bert(tmp_path / "bert")
    import_model(tmp_path / "bert", tmp_path / "imported")
    bert = ("--bert", tmp_path / "imported", "--updates", "70")
    rows = ("--rows", "backbone", "k4", "token_pruning")
    found = stages("glue", tmp_path, "--task", "sst2", *bert, *rows)
    assert found["pretrained"].command[2] == str(tmp_path / "imported/checkpoint.pt")
    assert [s.name for s in trainings(found)] == ["backbone", "step1.k4", "k4", "token_pruning"]
    assert found["backbone"].option("--encoder-embed-dim") == "12"
    assert found["backbone"].option("--separator-token") is None  # BERT's pairs have one
    assert found["k4"].option("--max-update") == "70"
    assert found["k4"].option("--warmup-updates") == "7"
    assert found["step1.k4"].option("--max-update") == "200"
    budget = ("--raw-updates", "50", "--model-updates", "90")
    found = stages("glue", tmp_path, "--task", "sst2", *bert, *budget, "--rows", "first_3")
    assert [s.option("--max-update") for s in trainings(found)] == ["90", "50", "70"]
    assert {s.option("--max-tokens") for s in trainings(found)} == {"1024"}
    rows = ("--rows", "k4", "first_3", "token_pruning")
    on_task = ("backbone", "k4", "first_3", "token_pruning")
    for option, of_task, of_raw in (
        ("--max-tokens", "8192", "1024"),
        ("--raw-max-tokens", "1024", "8192"),
    ):
        found = stages("glue", tmp_path, "--task", "sst2", *bert, option, "8192", *rows)
        sizes = {s.name: s.option("--max-tokens") for s in trainings(found)}
        on_raw = {"step1.k4": of_raw, "step1.first_3": of_raw}
        assert sizes == dict.fromkeys(on_task, of_task) | on_raw
    assert {found[name].option("--max-positions") for name in on_task} == {"16"}  # the model's
    with pytest.raises(UserError, match="--bert: is an encoder; give --form classes"):
        stages("glue", tmp_path, "--task", "rte", *bert, "--form", "text")
    with pytest.raises(UserError, match="--bert none/model_options: no such file; make it by"):
        stages("glue", tmp_path, "--task", "rte", "--bert", "none")
    # 0 updates would train without end
    numbers = ("--updates", "--raw-updates", "--model-updates", "--max-tokens", "--raw-max-tokens")
    for option in numbers:
        with pytest.raises(UserError, match=f"{option} 0: give 1 or more"):
            stages("glue", tmp_path, "--task", "rte", *bert, option, "0")


def test_glue_from_a_bert_with_data_of_other_words(tmp_path):
    write_bert(tmp_path / "bert")
    import_model(tmp_path / "bert", tmp_path / "imported")
    data = tmp_path / "glue/sst2/data"
    data.mkdir(parents=True)
    (data / "dict.txt").write_text("other 1\n")
    bert = ("--task", "sst2", "--bert", tmp_path / "imported", "--rows", "k4")
    with pytest.raises(UserError, match=r"--bert .*: the words of .*dict.txt are not those of"):
        stages("glue", tmp_path, *bert)
    (data / "dict.txt").write_bytes((tmp_path / "imported/dict.txt").read_bytes())
    assert "k4" in stages("glue", tmp_path, *bert)


@pytest.mark.parametrize("form", ["classes", "text"])
def test_the_updates_of_a_model_that_is_trained_from_scratch(form, tmp_path):
    glue = ("glue", tmp_path, "--task", "rte", "--form", form, "--rows", "k4", "first_3")
    trained = trainings(stages(*glue, "--updates", "7", "--raw-updates", "8"))
    updates = {s.name: s.option("--max-update") for s in trained}
    assert updates["backbone"] == "1000"
    assert updates["k4"] == updates["first_3"] == "7"
    assert updates["step1.k4"] == updates["step1.first_3"] == "8"
    model = stages(*glue, "--model-updates", "9", "--max-tokens", "99")["backbone"]
    assert (model.option("--max-update"), model.option("--max-tokens")) == ("9", "99")


def test_the_length_of_the_table_and_wrong_rows(tmp_path):
    table = stages("squad", tmp_path)["table"]
    assert table.option("--length") == "256" and table.always
    table = stages("squad", tmp_path, "--length", "99")["table"]
    assert table.option("--length") == "99"
    with pytest.raises(UserError, match="--rows k3: there is no such row; give some of backbone"):
        stages("squad", tmp_path, "--rows", "k3")
