"""The recipe of prompts of language models as data."""

import pytest
from fairseq import options
from pet_fairseq_recipes.variator.language_model import ROWS

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.runner.run import run_stages
from pet_fairseq.runner.skipping import RunOptions
from tests.recipes.paper import check_order, pipeline, stages, trainings

pytestmark = pytest.mark.paper

pet_fairseq.register()
ALL = tuple(row.name for row in ROWS)
MODEL = ("--model", "models/lm")


def test_all_rows(tmp_path):
    found = stages("language_model", tmp_path, *MODEL, "--rows", *ALL, "--updates", "20")
    check_order(found)
    # five ratios, two ablations, two sites and the competitor; nothing before
    assert len(trainings(found)) == 5 + 2 + 2 + 1
    assert found["backbone"].command[:2] == ("ln", "-sf")
    assert str(found["k8"].product).startswith(f"{tmp_path}/language_model/lm/prompts/k8/")
    for stage in trainings(found):
        is_plugin = stage.option("--arch") == "variator"
        assert stage.option("--prompt-end") == ("Ċ" if is_plugin else None)
        assert stage.option("--max-update") == "20"
    assert found["mean_copy"].option("--prompt-end") == "Ċ"
    results = {n.removesuffix("/result"): s for n, s in found.items() if n.endswith("/result")}
    assert set(results) == set(ALL)
    for name, stage in results.items():
        assert stage.command[1:3] == ("score", "prompts") and stage.alone
        assert stage.option("--cut") == (name[3:] if name.startswith("cut") else None)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_fine_tuned_first(tmp_path):
    model = tmp_path / "lm"
    model.mkdir()
    (model / "model_options").write_text("--arch llama --decoder-layers 2")
    options = ("--model", model, "--model-updates", "30", "--rows", "k2", "cut2")
    found = stages("language_model", tmp_path, *options, "--closed-answers")
    check_order(found)
    backbone = found["backbone"]
    assert found["pretrained"].command[:2] == ("ln", "-sf")
    assert backbone.option("--finetune-from-model") == str(found["pretrained"].product)
    assert backbone.option("--arch") == "llama" and backbone.option("--max-update") == "30"
    assert found["k2"].option("--backbone-path") == str(backbone.product)
    assert found["k2"].option("--max-update") == "300"
    assert all("--closed-answers" in found[f"{row}/result"].command for row in ("k2", "cut2"))
    (model / "model_options").unlink()
    with pytest.raises(UserError, match=r"--model .*model_options: no such file"):
        stages("language_model", tmp_path, *options)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_fairseq_takes_every_training_command(device, tmp_path):
    found = stages("language_model", tmp_path, *MODEL, "--rows", *ALL, device=device)
    for stage in trainings(found):
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        parser = options.get_training_parser(stage.option("--task"))
        args = options.parse_args_and_arch(parser, input_args=words)
        assert args.save_dir == str(stage.product.parent) and args.cpu == (device == "cpu")


def test_refused(tmp_path):
    for words, message in (
        (("--rows", "token_pruning"), "--rows token_pruning: there is no such row; .* cut32"),
        (("--updates", "0"), "--updates 0: give 1 or more"),
        (("--max-tokens", "0"), "--max-tokens 0: give 1 or more"),
        (("--texts", "0"), "--texts 0: give 1 or more"),
        (("--length", "0"), "--length 0: give 1 or more"),
        (("--model-updates", "-1"), "--model-updates -1: give 0 or more"),
    ):
        with pytest.raises(UserError, match=message):
            stages("language_model", tmp_path, *MODEL, *words)


def test_links_to_the_model_are_not_made_again(tmp_path, capfd):
    model, runs = tmp_path / "lm", tmp_path / "runs"
    model.mkdir()
    (model / "checkpoint.pt").write_text("model")
    for _ in range(2):
        given = ("--model", model, "--runs", runs, "--rows", "cut2")
        planned = pipeline("language_model", tmp_path, *given)
        links = [stage for stage in planned.stages if stage.command[0] == "ln"]
        run_stages(links, planned.folder, RunOptions(places=planned.places))
    assert capfd.readouterr().out.count("done before") == len(links) == 2
    runs.rename(tmp_path / "moved")
    assert (tmp_path / "moved/cut2/checkpoint_best.pt").read_text() == "model"
