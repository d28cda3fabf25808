"""What is decided before anything runs, for untrained teachers and data made by hand."""

import math
import shutil
from functools import partial
from pathlib import Path

import pytest
from omegaconf import DictConfig

from pet_fairseq.checkpoints.loading import load_task
from pet_fairseq.checkpoints.subsets import load_subset
from pet_fairseq.compress.plan import Request, make_plan
from pet_fairseq.compress.stages import build_pipeline, build_stages
from pet_fairseq.compress.student import Size
from pet_fairseq.errors import UserError
from pet_fairseq.predict.speed.translate import ROUNDS
from pet_fairseq.runner.device import CPU
from pet_fairseq.runner.record import make_record
from tests.export.translators import PRE_NORM, bpe_pieces, make, sentence_pieces
from tests.translation import make_task, save_model, write_subset

SIZES = {"embed_dim": 32, "ffn_embed_dim": 64, "layers": 2, "attention_heads": 4}
SHAPE = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in SIZES.items()}
HALF = Size(rate=50)


def write_lengths(folder, name, lengths):
    """A set whose sentences have these lengths in tokens, the end included."""
    write_subset(Path(folder), name, [[*[5] * (length - 1), 2] for length in lengths])


@pytest.fixture
def task(tmp_path):
    """The task of a folder with all three sets."""
    task = make_task(tmp_path / "data")
    for name in ("train", "valid", "test"):
        write_lengths(task.cfg.data, name, [3, 8, 4])
    return task


@pytest.fixture
def build(task, tmp_path):
    """A builder of stages, by name, for a teacher with these options of its model."""

    def build(test="test", size=HALF, arch="transformer", **options):
        teacher = Path(save_model(tmp_path / "t.pt", task, arch, **SHAPE, **options))
        data, out = Path(task.cfg.data), tmp_path / "out"
        request = Request(teacher, data, out, "distil", size, CPU, updates=9, test=test)
        return {stage.name: stage for stage in build_stages(make_plan(request))}

    return build


def test_a_folder_called_test_is_not_taken_for_the_test_set(build, task, tmp_path, monkeypatch):
    """`compress --out .` writes such a folder itself."""
    (tmp_path / "test").mkdir()
    monkeypatch.chdir(tmp_path)
    assert build()["test-text"].command.arguments["data"] == Path(task.cfg.data)
    with pytest.raises(UserError, match=r"^--test \./test: has no dict"):
        build(test="./test")


@pytest.mark.slow
@pytest.mark.parametrize("name, option", [("valid", "--data"), ("test", "--test")])
@pytest.mark.parametrize("limits", [(7, 8), (8, 7)])
def test_a_sentence_that_the_teacher_cannot_read(name, option, limits, build, task):
    other = {"valid": "test", "test": "valid"}[name]
    write_lengths(task.cfg.data, other, [3, 7])
    source, target = limits
    message = (
        f"^{option} .*: the {name} set has a sentence, in line 2, that is longer than the {source} "
        f"source and {target} target tokens"
    )
    with pytest.raises(UserError, match=message):
        build(max_source_positions=source, max_target_positions=target)
    write_lengths(task.cfg.data, name, [3, 7])
    build(max_source_positions=source, max_target_positions=target)


def test_all_that_the_teacher_reads_is_translated(build, task):
    """fairseq-generate's own limit is 1,024."""
    write_lengths(task.cfg.data, "test", [1500])
    stages = build(max_source_positions=2000, max_target_positions=1600)
    for name in ("generate/teacher.1", "generate/student.1", "training"):
        assert stages[name].option("--max-source-positions") == "2000"
        assert stages[name].option("--max-target-positions") == "1600"


@pytest.mark.parametrize(
    "name, option", [("train", "--data"), ("valid", "--data"), ("test", "--test")]
)
def test_an_empty_set(name, option, build, task):
    for lang in ("de", "en"):
        (Path(task.cfg.data) / f"{name}.de-en.{lang}.bin").write_bytes(b"")
    with pytest.raises(UserError, match=f"^{option} .* has a {name} set that is empty"):
        build()
    with pytest.raises(UserError, match=f"^--subset {name}: is empty"):
        load_subset(load_task(DictConfig({}), task.cfg.data), name)


def test_features_of_a_teacher_with_an_adaptive_softmax_are_not_kept(build):
    options = {"adaptive_softmax_cutoff": "6,9", "adaptive_softmax_dropout": 0.0}
    assert "--teacher-cache-mb" not in build(**options)["training"].command
    assert "--teacher-cache-mb" in build()["training"].command


def test_translations_in_ctranslate2_are_no_longer_than_the_models_positions(build):
    pytest.importorskip("ctranslate2")
    lengths = [
        build(max_source_positions=n, max_target_positions=n)["speed"].command.arguments[
            "max_length"
        ]
        for n in (24, 1024)
    ]
    assert lengths == [23, 200]


def several(task, tmp_path, *lengths):
    """The task's folder and others, whose training sets have sentences of these lengths."""
    folders = [Path(task.cfg.data)]
    for number, some in enumerate(lengths):
        folders.append(tmp_path / f"more{number}")
        shutil.copytree(folders[0], folders[-1])
        for name in ("train", "valid", "test"):
            [path.unlink() for path in folders[-1].glob(f"{name}.*")]
        write_lengths(folders[-1], "train", some)
    return folders


def plan_for(folders, task, tmp_path, **options):
    teacher = Path(save_model(tmp_path / "t.pt", task, "transformer", **SHAPE))
    first, *more = folders
    request = Request(
        *(teacher, first, tmp_path / "out", "distil", HALF, CPU), more_data=tuple(more), **options
    )
    return make_plan(request)


def test_a_training_set_in_several_folders(task, tmp_path):
    """All of it counts; the other sets are in the first folder."""
    folders = several(task, tmp_path, [5] * 400, [2, 6])
    plan = plan_for(folders, task, tmp_path)
    assert plan.budget.per_epoch == math.ceil((15 + 2000 + 8) / plan.batch.tokens)
    assert plan.budget.folders == 3
    pipeline = build_pipeline(plan)
    stages = {stage.name: stage for stage in pipeline.stages}
    training = stages["training"]
    words = training.words()
    assert ":".join(map(str, folders)) == words[words.index("--user-dir") - 1]
    assert set(folders) < set(training.inputs)
    assert "fairseq reads one of 3 folders in what it calls an epoch" in pipeline.about[0]
    for name in ("generate/student.1", "export/student/fairseq"):
        assert str(folders[0]) in stages[name].words() and folders[1] not in stages[name].inputs
    (tmp_path / "out").mkdir()
    record = make_record(training, pipeline.places, finished=True)
    assert record.command[1] == "DATA:DATA2:DATA3"
    assert {"DATA", "DATA2", "DATA3"} < record.inputs.keys()


def test_the_learning_rate_is_the_users_or_the_widths(task, tmp_path):
    for given, rate in ((None, "0.014"), (0.003, "0.003")):  # 0.7 over the width would be more
        plan = plan_for([Path(task.cfg.data)], task, tmp_path, updates=9, lr=given)
        pipeline = build_pipeline(plan)
        training = next(stage for stage in pipeline.stages if stage.name == "training")
        assert training.option("--lr") == rate
        assert f"peak learning rate: {rate}" in pipeline.about


def test_wrong_folders_of_several(task, tmp_path):
    folders = several(task, tmp_path, [5, 5])
    gone = tmp_path / "gone"
    with pytest.raises(UserError, match=f"^--data {gone}: no such folder"):
        plan_for([*folders, gone], task, tmp_path)
    words = folders[1] / "dict.en.txt"
    words.write_text("other 1\n" + words.read_text())
    with pytest.raises(UserError, match=f"^--data {folders[1]}: made with other dictionaries than"):
        plan_for(folders, task, tmp_path)
    shutil.copy(folders[0] / "dict.en.txt", words)
    [path.unlink() for path in folders[1].glob("train.*")]
    with pytest.raises(UserError, match=f"^--data {folders[1]}: .* has no train set, only no data"):
        plan_for(folders, task, tmp_path)


def test_a_training_set_of_several_parts(task, tmp_path):
    """fairseq loses the first one unless it is told not to."""
    data = Path(task.cfg.data)
    write_lengths(data, "train1", [5] * 400)
    plan = plan_for([data], task, tmp_path)
    assert plan.budget.per_epoch == math.ceil((15 + 2000) / plan.batch.tokens)
    stages = {stage.name: stage for stage in build_stages(plan)}
    assert stages["training"].option("--upsample-primary") == "1"
    [path.unlink() for path in data.glob("train1.*")]
    stages = {stage.name: stage for stage in build_stages(plan_for([data], task, tmp_path))}
    assert stages["training"].option("--upsample-primary") is None


def exports(stages):
    return [name.removeprefix("export/") for name in stages if name.startswith("export/")]


def test_a_teacher_that_ctranslate2_cannot_hold_is_measured_in_fairseq(build):
    pytest.importorskip("ctranslate2")
    stages = build(activation_fn="tanh")
    assert "--activation-fn tanh" in stages["report"].command.arguments["no_ctranslate2"]
    assert exports(stages) == ["teacher/fairseq", "student/fairseq", "student/ctranslate2"]
    assert list(stages["speed"].command.arguments["models"]) == ["student"]
    rounds = [name for name in stages if name.startswith("generate/")]
    assert len(rounds) == 2 * ROUNDS and all(stages[name].alone for name in rounds)


def test_a_teacher_without_any_form_is_measured_in_fairseq(build):
    pytest.importorskip("ctranslate2")
    stages = build(arch="can_transformer")
    assert "holds can_transformer: " in stages["report"].command.arguments["no_ctranslate2"]
    assert exports(stages) == ["student/fairseq", "student/ctranslate2"]


def test_an_imported_marian_is_measured_in_ctranslate2(build):
    pytest.importorskip("ctranslate2")
    stages = build(arch="marian", swish=True)
    assert stages["report"].command.arguments["no_ctranslate2"] is None
    assert exports(stages) == ["teacher/ctranslate2", "student/fairseq", "student/ctranslate2"]
    assert list(stages["speed"].command.arguments["models"]) == ["teacher", "student"]
    assert [name for name, stage in stages.items() if stage.alone] == ["speed"]


def test_megabytes_for_a_teacher_without_positions(build):
    options = {"size": Size(megabytes=0.03), "max_source_positions": 50, "max_target_positions": 50}
    trainings = [
        build(no_token_positional_embeddings=without, **options)["training"]
        for without in (True, False)
    ]
    assert trainings[0].command == trainings[1].command


# --- students of other forms ----------------------------------------------------------------------


@pytest.fixture
def plan_of_form(tmp_path):
    """A planner of a student of some form, of a pre-norm teacher with SentencePiece."""

    def plan(method="distil", pieces=sentence_pieces, separate=False, **options):
        shape = dict(SHAPE, encoder_embed_dim=192, decoder_embed_dim=192)
        made = make(tmp_path / "data", "transformer", pieces, separate, **shape, **PRE_NORM)
        for name in ("train", "valid", "test"):
            write_lengths(made.data, name, [3, 8, 4])
        paths = (Path(made.checkpoint), Path(made.data), tmp_path / "out")
        request = Request(*paths, method, HALF, CPU, updates=9, **options)
        return {stage.name: stage for stage in build_stages(make_plan(request))}

    return plan


@pytest.fixture
def plan_for_marian(plan_of_form):
    return partial(plan_of_form, student_form="marian")


@pytest.mark.parametrize("separate", [True, False])
def test_a_post_norm_student_goes_into_transformers(separate, plan_of_form):
    """With one dictionary or two; its output is tied, although its teacher's is not."""
    pytest.importorskip("transformers")
    wanted = {"separate": separate, "forms": ("huggingface",)}
    with pytest.raises(UserError, match=r"M2M100, .*\(compress --student-form post-norm\)"):
        plan_of_form(**wanted)
    stages = plan_of_form(**wanted, student_form="post-norm")
    training = stages["training"]
    assert "--share-decoder-input-output-embed" in training.command
    assert "--encoder-normalize-before" not in training.command
    assert {"export/student/huggingface", "export/student/fairseq"} <= stages.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, arch", [("distil", "marian_student"), ("pet", "pet_marian_student")]
)
def test_a_student_for_marian(method, arch, plan_for_marian):
    stages = plan_for_marian(method)
    training = stages["training"]
    assert training.option("--arch") == arch
    assert "--share-all-embeddings" in training.command
    assert "--encoder-normalize-before" not in training.command
    assert int(training.option("--encoder-embed-dim")) % 64 == 0
    exports = [name for name in stages if name.startswith("export/student/")]
    assert "export/student/marian" in exports and "export/student/fairseq" not in exports
    words = stages["export/student/marian"].words()
    assert words[words.index("--to") + 1] == "marian"
    assert words[words.index("--precision") + 1] == "int8"


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(separate=True), "has a dictionary for each language, and Marian one for both"),
        (dict(pieces=bpe_pieces), "bpe.codes segments its text, and Marian's engine takes"),
        (dict(pieces=lambda folder: ["cat"]), "the model has no subword model"),
    ],
)
def test_what_a_student_for_marian_needs(options, message, plan_for_marian):
    with pytest.raises(UserError, match=message):
        plan_for_marian(**options)


def test_no_sentencepiece_model_beside_the_data(plan_for_marian, tmp_path):
    def without_file(folder):
        pieces = sentence_pieces(folder)
        (folder / "spm.model").unlink()
        return pieces

    message = "^--student-form marian: the model's words are pieces, and there is no .*; put the"
    with pytest.raises(UserError, match=message):
        plan_for_marian(pieces=without_file)
