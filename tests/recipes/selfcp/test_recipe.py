"""SelfCP's recipes as data."""

import pytest
from fairseq import options
from pet_fairseq_recipes.selfcp.rows import ROWS
from pet_fairseq_recipes.selfcp.setup import DATA_SETS

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.selfcp.segments import STRATEGIES
from tests.recipes.paper import check_order, parser, stages, trainings

pytestmark = pytest.mark.paper

pet_fairseq.register()
EVERY_ROW = (*ROWS, "former4")


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_every_row(name, tmp_path):
    found = stages(name, tmp_path, "--rows", *EVERY_ROW, "--seeds", "1", "2")
    check_order(found)
    # the language model once; memory, and that of the recursive way, for each seed
    assert [s.name for s in trainings(found)] == [
        *("backbone", "memory.seed1", "recursive_memory.seed1", "control_memory.seed1"),
        *("memory.seed2", "recursive_memory.seed2", "control_memory.seed2"),
    ]
    results = [s for s in found.values() if s.product.name == "result.json"]
    assert len(results) == 2 * len(EVERY_ROW)
    command = "choose" if DATA_SETS[name].candidates else "score"
    assert {s.command[1] for s in results} == {command}
    assert found["table"].command[-len(EVERY_ROW) :] == EVERY_ROW


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_fairseq_takes_every_training_command(name, tmp_path):
    for stage in trainings(stages(name, tmp_path)):
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        parser = options.get_training_parser(stage.option("--task"))
        args = options.parse_args_and_arch(parser, input_args=words)
        assert args.save_dir == str(stage.product.parent)


def test_every_strategy_has_a_row():
    assert set(STRATEGIES) - set(ROWS) == {"auto"}
    assert set(ROWS) - set(STRATEGIES) == {"control_former", "control_latter"}


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_full_is_no_default_where_prompts_are_longer_than_the_model(name):
    longest = {"cicero": 378, "cola": 500, "recall": 121}  # tokens of a prompt
    rows = parser(name).get_default("rows")
    assert ("full" in rows) == (name in longest) and "full" not in rows[:-1]


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_no_command_is_tied_to_the_cpu(name, tmp_path):
    for device in ("cpu", "cuda"):
        for stage in stages(name, tmp_path, device=device).values():
            if stage.command[0].startswith("fairseq-"):
                assert ("--cpu" in stage.command) == (device == "cpu"), stage.name
            if stage.command[1] == "choose":
                assert stage.option("--device") == device


def test_strategies_ratios_and_memories(tmp_path):
    rows = ("former", "former4", "recursive", "latter64", "control_former", "truncate_equal")
    found = stages("cicero", tmp_path, "--rows", *rows, "--ratio", "8", "--beam", "1")
    runs = tmp_path / "cicero/selfcp"
    for row, strategy, ratio, memory in (
        ("former", "former", 8, "memory"),
        ("former4", "former", 4, "memory"),
        ("recursive", "recursive", 8, "recursive_memory"),
        ("latter64", "latter", 64, "memory"),
        ("control_former", "former", 8, "control_memory"),
        ("truncate_equal", "truncate_equal", 8, "memory"),
    ):
        overrides = f"{{'prompt_strategy': '{strategy}', 'memory_ratio': {ratio}}}"
        for kind in ("generate", "validate"):
            stage = found[f"{row}.seed1/{kind}"]
            assert stage.option("--model-overrides") == overrides
            assert stage.option("--path") == f"{runs}/{memory}.seed1/checkpoint_best.pt"
    assert found["former.seed1/generate"].option("--beam") == "1"
    assert found["memory.seed1"].option("--prompt-strategy") == "auto"
    assert found["recursive_memory.seed1"].option("--prompt-strategy") == "recursive"
    assert found["control_memory.seed1"].option("--prompt-strategy") == "auto"
    segments = [found[f"{kind}memory.seed1"].option("--segments-from") for kind in ("control_", "")]
    assert segments == ["other", None]
    for row in ("half", "former4x", "former0", ""):
        with pytest.raises(UserError, match=r"--rows .*: there is no such row.*; give some"):
            stages("cicero", tmp_path, "--rows", row)


def test_given_language_models_windows_and_lengths(tmp_path):
    found = stages("recall", tmp_path, "--backbone", "lm.pt", "--window", "99")
    assert found["backbone"].command[0] == "ln" and "memory.seed1" in found
    assert found["memory.seed1"].option("--window") == "99"
    lengths = ("--lm-updates", "50", "--memory-updates", "70", "--lm-from", "old.pt")
    found = stages("recall", tmp_path, *lengths)
    assert found["backbone"].option("--max-update") == "50"
    assert found["backbone"].option("--warmup-updates") == "5"
    assert found["backbone"].option("--finetune-from-model") == "old.pt"
    assert found["backbone"].option("--dropout") == "0"
    assert found["memory.seed1"].option("--total-num-update") == "70"
    for option in ("--lm-updates", "--memory-updates"):  # 0 would train without end
        with pytest.raises(UserError, match=f"{option} 0: give 1 or more"):
            stages("recall", tmp_path, option, "0")
