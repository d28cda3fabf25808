"""Variator's recipes: dry runs and wrong inputs."""

import pytest

from pet_fairseq.pretrained.bert import import_bert
from tests.cli.processes import REPO
from tests.cli.shell import refuses, sh
from tests.pretrained.bert import write_bert

RECIPES = ("examples/glue/run.sh", "examples/squad/run.sh", "examples/multi30k/variator.sh")
EVERY_ROW = (
    "backbone k2 k4 k8 k16 k32 mean_copy mean copy no_pretraining no_adaptation lambda01 lambda05 "
    "attention attention_kv token_pruning narrow_ffn"
)


def dry(tmp_path, script, *args, **env):
    folders = {"DATA": str(tmp_path / "data"), "RUNS": str(tmp_path / "runs")}
    return sh(script, *args, DRY_RUN="1", **{**folders, **env}).stdout


@pytest.mark.parametrize("form", ["classes", "text"])
@pytest.mark.parametrize("task", ["mnli", "qnli", "qqp", "rte", "sst2", "mrpc"])
def test_glue_with_pre_training(task, form, tmp_path):
    out = dry(tmp_path, RECIPES[0], task, FORM=form, ROWS=EVERY_ROW)
    lines = [line for line in out.splitlines() if line.startswith("+ fairseq-train")]
    # the model twice; five ratios and four forms twice; k4's first step again for no_adaptation and
    # both lambdas (finished then, in a real run), whose second step is their own; three more
    assert len(lines) == 2 + 2 * 9 + 3 + 2 + 3
    raw = "masked_lm" if form == "classes" else "span_masked_lm"
    assert sum(f"--task {raw} " in line for line in lines) == 1 + 9 + 3
    assert ("--num-classes 3" in out) == (task == "mnli" and form == "classes")
    assert ("pet-fairseq score classes" in out) == (form == "classes")
    assert ("pet-fairseq score accuracy" in out) == (form == "text")
    assert out.count("new-plugins") == 1 and out.count("--task-loss-weight 0.5") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_raw_text_plugins_are_only_adapted(tmp_path):
    (tmp_path / "model.pt").touch()
    rows = EVERY_ROW.replace(" no_adaptation", "")
    env = {"ROWS": rows, "BACKBONE": str(tmp_path / "model.pt")}
    out = dry(tmp_path, RECIPES[2], **env)
    assert out.count("+ fairseq-train") == 5 + 4 + 1 + 2 + 2 and "move-plugins" not in out
    assert out.count("pet-fairseq score bleu") == len(rows.split())
    assert f"ln -sf {tmp_path}/model.pt" in out


def test_glue_from_a_bert(tmp_path):
    write_bert(tmp_path / "bert")
    import_bert(tmp_path / "bert", tmp_path / "imported")
    imported = tmp_path / "imported"
    out = dry(tmp_path, RECIPES[0], "sst2", BERT=str(imported), ROWS="backbone k4 token_pruning")
    assert f"ln -sf {imported}/checkpoint.pt {tmp_path}/runs/pretrained/checkpoint_best.pt" in out
    model, pre_trained, adapted, pruned = (
        line for line in out.splitlines() if line.startswith("+ fairseq-train")
    )
    assert "--encoder-embed-dim 12 " in model and "--finetune-from-model" in model
    assert "--task masked_lm" in pre_trained and "--arch variator" in adapted
    assert "--arch token_pruning" in pruned
    env = {"DATA": str(tmp_path), "RUNS": str(tmp_path / "runs"), "check": False}
    refuses(sh(RECIPES[0], "rte", BERT=str(imported), FORM="text", **env), "BERT: is an encoder")
    refuses(sh(RECIPES[0], "rte", BERT="none", **env), "BERT: none/model_options: no such file")


def test_wrong_input(tmp_path):
    def wrong(*args, **env):
        folders = {"DATA": str(tmp_path), "RUNS": str(tmp_path / "runs")}
        return sh(*args, check=False, **folders, **env)

    refuses(wrong(RECIPES[0], "cola"), "TASK 'cola': give one of")
    refuses(wrong(RECIPES[0]), "TASK '': give one of")
    refuses(wrong(RECIPES[0], "rte", FORM="words"), "FORM=words: give classes or text")
    for args in ((RECIPES[0], "rte"), (RECIPES[1],), (RECIPES[2],)):
        refuses(wrong(*args), "no such folder; run prepare.sh first")
        refuses(wrong(*args, DRY_RUN="1", ROWS="k3"), "ROWS: nothing is called k3")
    for folder in ("classes", "raw_text"):
        (tmp_path / folder).mkdir()
    refuses(wrong(RECIPES[0], "rte", PRETRAINED="none.pt"), "none.pt: no such file")
    assert not (tmp_path / "runs").exists()


def test_readmes_name_the_recipes():
    for script in RECIPES:
        text = (REPO / script).parent.joinpath("README.md").read_text()
        assert script.rsplit("/", 1)[1] in text
