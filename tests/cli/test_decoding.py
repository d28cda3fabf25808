"""`--task pet_translation` in fairseq-generate, -interactive and -train."""

import pytest

from tests.cli.processes import CROSS_ENTROPY, REPO, TRAIN, Result, run, train

USER_DIR = ("--user-dir", REPO / "pet_fairseq", "--cpu")
ALL = ("--required-batch-size-multiple", "1")
FAST = ("--task", "pet_translation")
SIZES = {
    "lstm": ("embed-dim=32", "hidden-size=32"),
    "can_transformer": ("embed-dim=32", "ffn-embed-dim=32", "layers=2", "attention-heads=2"),
}
SHORT = ("--max-len-b", "15")  # this little model repeats a word; long repetitions nearly tie


def results(result: Result) -> list[tuple]:
    """The hypotheses and positional scores that a command printed."""
    lines = result.printed("HP")
    return [(line[0], line[-1] if line[0][0] == "H" else numbers(line[-1])) for line in lines]


def numbers(text: str) -> list:
    return [pytest.approx(float(number), abs=2e-4) for number in text.split()]


def plain(found: list[tuple]) -> list[tuple]:
    return [
        (name, value if isinstance(value, str) else [x.expected for x in value])
        for name, value in found
    ]


@pytest.mark.slow
def test_every_sentence_is_translated(teacher, data):
    """30 sentences are no batches of 8; fairseq's own task leaves some out."""
    command = ("fairseq-generate", data, "--path", teacher, *USER_DIR, "--beam", "1", *SHORT)
    assert len(run(*command).printed("H")) < 30
    assert len(run(*command, *FAST).printed("H")) == 30


def test_generates_what_fairseq_does(student, teacher, data):
    many = ("--beam", "4", "--nbest", "3", "--lenpen", "0.6", "--prefix-size", "2", *SHORT)
    stock = (*FAST, "--decoding", "fairseq")
    for path, options, ways in (
        (student[0] / "checkpoint_best.pt", many, (FAST, stock)),
        (teacher, ("--beam", "1"), (FAST,)),
    ):
        command = ("fairseq-generate", data, "--path", path, *USER_DIR, *ALL, *options)
        theirs = results(run(*command))
        assert len(theirs) >= 60
        for way in ways:
            found = run(*command, *way)
            assert plain(results(found)) == theirs and "own steps" not in found.output


def test_ensemble(student, teacher, data):
    paths = f"{student[0] / 'checkpoint_best.pt'}:{teacher}"
    command = ("fairseq-generate", data, "--path", paths, *USER_DIR, *ALL)
    assert plain(results(run(*command, *FAST))) == results(run(*command))


def test_interactive(teacher, data):
    command = ("fairseq-interactive", data, "--path", teacher, *USER_DIR, "-s", "de", "-t", "en")
    text = "a1 a2 a3\n\na0 unheard\n"
    found = [results(run(*command, *fast, text_in=text)) for fast in (FAST, ())]
    assert len(found[0]) == 6 and plain(found[0]) == found[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--sampling", "--beam", "2", "--nbest", "2", "--seed", "1"),
        ("--diverse-beam-groups", "2", "--beam", "4"),
    ],
)
def test_falls_back_and_says_so_once(options, teacher, data):
    command = ("fairseq-generate", data, "--path", teacher, *USER_DIR, *ALL, *options)
    found = run(*command, *FAST)
    assert found.output.count(f"{options[0]}: decoding with fairseq's generator") == 1
    assert plain(results(found)) == results(run(*command)) != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (("lstm", "--decoder-out-embed-dim", "32"), "its decoder is no Transformer's (LSTMDecoder"),
        (("can_transformer", "--decoder-normalize-before"), "a layer of its decoder has parts of"),
    ],
)
def test_a_model_that_decodes_by_itself_is_named_once(model, reason, teacher, data, tmp_path):
    arch, *options = model
    sizes = [f"--{side}-{size}" for side in ("encoder", "decoder") for size in SIZES[arch]]
    train(data, tmp_path, "--arch", arch, *options, *sizes, *CROSS_ENTROPY, "--max-update", "5")
    path = tmp_path / "checkpoint_last.pt"
    command = ("fairseq-generate", data, *USER_DIR, *ALL, *SHORT, "--path")
    found = run(*command, path, *FAST)
    line = f"{arch}: decoding through fairseq's own steps, not the fast ones: {reason}"
    assert found.output.count("own steps") == found.output.count(line) == 1
    assert plain(results(found)) == results(run(*command, path)) != []
    if arch == "can_transformer":
        both = run(*command, f"{path}:{teacher}", *FAST)
        assert both.output.count(line) == both.output.count("own steps") == 1


def test_min_len_above_max_len(teacher, data):
    limits = ("--max-len-b", "4", "--min-len", "9")
    command = ("fairseq-generate", data, "--path", teacher, *USER_DIR, *ALL, *FAST)
    failed = run(*command, *limits, check=False)
    assert failed.status != 0
    assert failed.output.splitlines()[-1].startswith("pet_fairseq: error: --min-len 9: above 4")


@pytest.mark.slow
def test_eval_bleu_in_training(data, tmp_path):
    """The same BLEU with either generator, while the weights change."""
    scores = []
    for decoding in ("fast", "fairseq"):
        log = run(
            *("fairseq-train", data, "--arch", "pet_transformer_tiny", *CROSS_ENTROPY, *TRAIN),
            *("--max-update", "30", "--validate-interval-updates", "15", *USER_DIR, *FAST),
            *("--eval-bleu", "--eval-bleu-args", '{"beam": 3, "max_len_b": 20}'),
            *("--decoding", decoding, "--save-dir", tmp_path / decoding),
        )
        scores.append(log.values("bleu", "valid"))
    assert len(scores[0]) >= 2 and scores[0] == scores[1]
