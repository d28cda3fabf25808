"""SelfCP's recipes as data."""

import pytest
import torch
from fairseq import options
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from pet_fairseq_recipes.selfcp.equal_rank import equal_rank
from pet_fairseq_recipes.selfcp.rows import ROWS
from pet_fairseq_recipes.selfcp.setup import DATA_SETS

import pet_fairseq
from pet_fairseq.errors import UserError
from pet_fairseq.nn.architectures import build_without_memory
from pet_fairseq.nn.low_rank import LowRankUpdates, attention_maps
from pet_fairseq.selfcp.connector import make_connector
from pet_fairseq.selfcp.segments import STRATEGIES
from tests import helpers
from tests.recipes.paper import check_order, parser, stages, trainings
from tests.selfcp.test_model import TINY
from tests.translation import save_model

pytestmark = pytest.mark.paper

pet_fairseq.register()
LOW_RANK = ("icae", "autocompressor", "lora")
EVERY_ROW = (*ROWS, "former4")


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_every_row(name, tmp_path):
    found = stages(name, tmp_path, "--rows", *EVERY_ROW, "--seeds", "1", "2")
    check_order(found)
    # the language model once; all that is trained around it for each seed
    around = ("memory", "recursive_memory", "control_memory", "icae_memory")
    around += ("autocompressor_memory", "lora_model")
    assert [s.name for s in trainings(found)] == [
        *("backbone", *(f"{name}.seed{seed}" for seed in (1, 2) for name in around))
    ]
    results = [s for s in found.values() if s.product.name == "result.json"]
    assert len(results) == 2 * len(EVERY_ROW)
    settings = DATA_SETS[name]
    by_candidates = "choose" if settings.candidates else "score"
    command = "response-loss" if settings.by_loss else by_candidates
    assert {s.command[1] for s in results} == {command}
    assert found["table"].command[-len(EVERY_ROW) :] == EVERY_ROW


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_fairseq_takes_every_training_command(name, tmp_path):
    for stage in trainings(stages(name, tmp_path, "--rows", "former", *LOW_RANK)):
        words = [word for word in stage.command[1:] if isinstance(word, str)]
        words.remove("--user-dir")
        parser = options.get_training_parser(stage.option("--task"))
        args = options.parse_args_and_arch(parser, input_args=words)
        assert args.save_dir == str(stage.product.parent)


def test_every_strategy_has_a_row():
    assert set(STRATEGIES) - set(ROWS) == {"auto"}
    more = {"control_former", "control_latter", *LOW_RANK}
    assert set(ROWS) - set(STRATEGIES) == more


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_full_is_no_default_where_prompts_are_longer_than_the_model(name):
    longest = {"cicero": 378, "cola": 500, "next_text": 145, "recall": 121}  # tokens of a prompt
    rows = parser(name).get_default("rows")
    assert ("full" in rows) == (name in longest) and "full" not in rows[:-1]


@pytest.mark.parametrize("name", list(DATA_SETS))
def test_no_command_is_tied_to_the_cpu(name, tmp_path):
    for device in ("cpu", "cuda"):
        for stage in stages(name, tmp_path, device=device).values():
            if stage.command[0].startswith("fairseq-"):
                assert ("--cpu" in stage.command) == (device == "cpu"), stage.name
            if stage.command[1] in ("choose", "response-loss"):
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


def test_low_rank_rows(tmp_path):
    found = stages("cicero", tmp_path, "--rows", "former", "icae4", *LOW_RANK)
    runs = tmp_path / "cicero/selfcp"
    for row, training, strategy, place in (
        ("icae", "icae_memory", "former", "compressor"),
        ("icae4", "icae_memory", "former", "compressor"),
        ("autocompressor", "autocompressor_memory", "recursive", "compressor"),
        ("lora", "lora_model", "truncate", "reader"),
    ):
        stage = found[f"{training}.seed1"]
        assert stage.option("--prompt-strategy") == strategy
        assert stage.option("--lora-on") == place
        read = found[f"{row}.seed1/generate"]
        assert read.option("--path") == f"{runs}/{training}.seed1/checkpoint_best.pt"
        assert f"'prompt_strategy': '{strategy}'" in read.option("--model-overrides")
    assert found["memory.seed1"].option("--lora-rank") is None
    assert found["icae_memory.seed1"].option("--lora-rank") == "32"
    published = found["autocompressor_memory.seed1"]
    assert published.option("--lora-rank") == "16" and published.option("--connector") == "none"
    assert published.option("--memory-tags") == "32"  # half of the window: the smallest ratio is 2
    assert found["icae_memory.seed1"].option("--memory-tags") is None
    assert not set(LOW_RANK) & set(parser("cicero").get_default("rows"))


def test_what_has_no_states_at_tags_is_not_standardised(tmp_path):
    found = stages("next_text", tmp_path, "--rows", "former", *LOW_RANK)
    for training, number in (
        ("memory", "64"),
        ("icae_memory", "64"),
        ("autocompressor_memory", "0"),
        ("lora_model", "0"),
    ):
        assert found[f"{training}.seed1"].option("--standardise-on") == number


def test_other_options_of_the_memory(tmp_path):
    given = ("--rows", "former", "control_former", "lora")
    before = stages("next_text", tmp_path, *given)
    more = "--prompt-strategy former --memory-ratio-range 12,12 --batch-size 32 --update-freq 1"
    found = stages("next_text", tmp_path, *given, "--memory-options", more)
    for name in ("memory.seed1", "control_memory.seed1", "lora_model.seed1"):
        assert found[name].option("--prompt-strategy") == "former"
        assert found[name].option("--memory-ratio-range") == "12,12"
        assert found[name].option("--batch-size") == "32"
        assert found[name].command.count("--update-freq") == 1
    assert found["control_memory.seed1"].option("--segments-from") == "other"
    for name in ("backbone", "former.seed1"):
        assert found[name].command == before[name].command


def trained_parameters(model, rank):
    """Of SelfCP's tag and connector, and of updates of this rank."""
    torch.manual_seed(0)
    words = model.decoder.embed_tokens
    connector = make_connector("linear", words.embedding_dim)
    updates = LowRankUpdates(attention_maps(model.decoder), rank, 1)
    selfcp = words.embedding_dim + sum(p.numel() for p in connector.parameters())
    return selfcp, sum(p.numel() for p in updates.parameters())


@pytest.mark.parametrize("name", ["cicero", "xsum"])
def test_lora_has_as_many_parameters_as_selfcp(name, tmp_path):
    found = stages(name, tmp_path, "--rows", "lora")
    words = [word for word in found["backbone"].command[1:] if isinstance(word, str)]
    words.remove("--user-dir")
    options_of = options.get_training_parser("language_modeling")
    args = options.parse_args_and_arch(options_of, input_args=words)
    rank = int(found["lora_model.seed1"].option("--lora-rank"))
    differences = []
    for given in (rank - 1, rank, rank + 1):
        selfcp, updates = trained_parameters(build_without_memory(args, 30, 30), given)
        differences.append(abs(selfcp - updates))
    assert min(differences) == differences[1] < 0.05 * selfcp


def test_lora_of_a_given_language_model(tmp_path):
    words = helpers.dictionary()
    words.save(str(tmp_path / "dict.txt"))
    cfg = LanguageModelingConfig(data=str(tmp_path), tokens_per_sample=64)
    task = LanguageModelingTask.setup_task(cfg)
    shape = {**TINY, "decoder_key_value_heads": 1, "decoder_layers": 1}
    path = save_model(tmp_path / "lm.pt", task, "llama", **shape)
    found = stages("recall", tmp_path, "--rows", "lora", "--backbone", path)
    # 16 x 16 + 2 x 16 in the tag and the connector; 16 + 16 and 16 + 8 for each rank
    assert found["lora_model.seed1"].option("--lora-rank") == "5"
    torch.save({**torch.load(path, weights_only=False), "model": {}}, tmp_path / "other.pt")
    for file, message in (("no.pt", "no such file"), ("other.pt", "holds no language model whose")):
        with pytest.raises(UserError, match=f"^--backbone .*{file}: .*{message}"):
            stages("recall", tmp_path, "--rows", "lora", "--backbone", str(tmp_path / file))


def test_equal_rank():
    """The paper's: 32 for 17 million, in 32 layers of width 4,096."""
    assert equal_rank(4096, 64 * [(4096, 4096)]) == 32
    assert equal_rank(8, 64 * [(4096, 4096)]) == 1
