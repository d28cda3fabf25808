"""Every wrong input ends in one line that names it, and a non-zero exit."""

import shutil

import pytest
import torch

from tests.cli.processes import (
    CROSS_ENTROPY,
    REPO,
    in_process,
    preprocess,
    run,
    train,
    write_text,
)

PET = ("--arch", "pet_transformer_tiny", *CROSS_ENTROPY, "--max-update", "1")


def refuses(result, *texts) -> None:
    """Failed with one line of error that holds the texts, and no traceback."""
    assert result.status != 0
    assert "Traceback" not in result.output
    line = result.output.strip().splitlines()[-1]
    assert line.startswith(("pet_fairseq: error: ", "pet-fairseq "))
    for text in texts:
        assert str(text) in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (("--encoder-layers", "3"), ("--encoder-pairs pet", "--encoder-layers is 3", "even")),
        (("--decoder-layers", "5"), ("--decoder-pairs pet", "--decoder-layers is 5")),
        (("--encoder-embed-dim", "66"), ("--encoder-embed-dim 66", "--encoder-attention-heads 4")),
        (("--encoder-pairs", "L1=X3"), ("--encoder-pairs", "L1=X3", "unknown slot 'X3'")),
        (("--decoder-pairs", "Qself9=Qenc1"), ("--decoder-pairs", "layer 9 is not one of 1..4")),
        (("--encoder-pairs", "all"), ("--encoder-pairs 'all'", "pet, layers, none")),
        (("--compression-reference", "nope"), ("--compression-reference nope",)),
        (("--quant-noise-scalar", "0.1"), ("--quant-noise-scalar 0.1", "quantised_adam")),
    ],
    ids=lambda value: value[0].lstrip("-") if value[0].startswith("--") else "",
)
def test_model_options(options, texts, data, tmp_path):
    refuses(train(data, tmp_path, *PET, *options, check=False), *texts)


def test_missing_teacher(data, tmp_path):
    options = ("--criterion", "pet_distillation", "--teacher-path", tmp_path / "none.pt")
    refuses(
        train(data, tmp_path, *PET, *options, check=False),
        *("--teacher-path", tmp_path / "none.pt", "no such file"),
    )


def test_teacher_with_another_dictionary(data, teacher, tmp_path):
    write_text(tmp_path / "raw", {"train": 300, "valid": 30, "test": 30}, seed=5)
    other = preprocess(tmp_path / "raw", tmp_path / "bin")
    options = ("--criterion", "pet_distillation", "--teacher-path", teacher)
    refuses(
        train(other, tmp_path / "run", *PET, *options, check=False),
        *("--teacher-path", data / "dict.de.txt", other / "dict.de.txt", "entry", "give one that"),
    )
    to = ("--data", other, "--to", "fairseq", "--out", tmp_path / "exported")
    refuses(
        in_process("export", teacher, *to),
        *(f"CHECKPOINT {teacher}: made with another dictionary", "give with --data"),
    )


def test_validate_with_a_criterion_that_was_not_the_trainings(data, teacher, student):
    """fairseq takes the checkpoint's own then, and uses the given one's options only."""
    validate = (
        *("fairseq-validate", data, "--user-dir", REPO / "pet_fairseq", "--cpu"),
        *("--path", student[0] / "checkpoint_best.pt", "--max-tokens", "500"),
        *("--task", "translation", "--criterion", "pet_simplified_task", "--teacher-path", teacher),
    )
    log = run(*validate).output
    assert "| kl " in log and "class_accuracy" not in log


def test_truncated_checkpoint_is_named(data, student, tmp_path):
    cut = tmp_path / "checkpoint_last.pt"
    cut.write_bytes((student[0] / "checkpoint_last.pt").read_bytes()[:50_000])
    user_dir = ("--user-dir", REPO / "pet_fairseq", "--cpu")
    refuses(run("fairseq-generate", data, "--path", cut, *user_dir, check=False), cut, "cut short")
    refuses(train(data, tmp_path, *PET, check=False), cut, "pet-fairseq repair")


@pytest.mark.slow
def test_empty_lines_in_the_source(raw, student_options, tmp_path):
    """They are sentences of one end-of-sentence token: trained on and translated, no nan."""
    folder = tmp_path / "raw"
    shutil.copytree(raw, folder)
    for split in ("train", "valid", "test"):
        lines = (folder / f"{split}.de").read_text().splitlines()
        lines[::7] = [""] * len(lines[::7])
        (folder / f"{split}.de").write_text("\n".join(lines) + "\n")
    dictionaries = [f"--{side}dict={data_dict(student_options, side)}" for side in ("src", "tgt")]
    data = preprocess(folder, tmp_path / "bin", *dictionaries)
    log = train(data, tmp_path / "run", *student_options, "--max-update", "10")
    assert all(loss == loss for loss in log.values("loss", "valid"))
    out = run(
        *("fairseq-generate", data, "--path", tmp_path / "run/checkpoint_last.pt", "--cpu"),
        *("--user-dir", REPO / "pet_fairseq", "--required-batch-size-multiple", "1"),
    ).output
    assert out.count("\nH-") == 30 and "nan" not in out


def data_dict(student_options, side: str):
    """The dictionary that the teacher of these options was trained with."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    import pet_fairseq  # noqa: F401  allows fairseq's types in checkpoints

    folder = load_checkpoint_to_cpu(student_options[-1])["cfg"].task.data
    return f"{folder}/dict.{'de' if side == 'src' else 'en'}.txt"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--optimizer", "adam"), "--max-tokens: missing; give it or --batch-size"),
        (("--max-tokens", "500"), "--optimizer: missing; give one, such as adam"),
        (("--max-tokens", "500", "--optimizer", "adam", "--valid-subset", "none"), "no set none"),
    ],
)
def test_what_fairseq_train_refuses_in_a_traceback(options, message, data, tmp_path):
    model = ("--user-dir", REPO / "pet_fairseq", "--arch", "pet_transformer_tiny", "--cpu")
    command = ("fairseq-train", data, *model, "--save-dir", tmp_path, "--max-update", "1")
    refuses(run(*command, *options, check=False), message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--path: missing"),
        (("--path", "none.pt"), "--path none.pt: no such file"),
        (("--path", None, "--gen-subset", "none"), "no set none"),
        (("--path", None, "--beam", "0", "--task", "pet_translation"), "--beam 0: give 1 or more"),
        (("--path", None, "--remove-bpe", "moses"), "--remove-bpe moses: "),
    ],
)
def test_what_fairseq_generate_refuses_in_a_traceback(options, message, data, teacher):
    options = [teacher if option is None else option for option in options]
    command = ("fairseq-generate", data, "--user-dir", REPO / "pet_fairseq", "--cpu", *options)
    refuses(run(*command, check=False), message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("sentencepiece",), "--sentencepiece-model: missing"),
        (("sentencepiece", "--sentencepiece-model", "none"), "none: no such file"),
        (("sentencepiece", "--sentencepiece-model", REPO / "README.md"), "README.md: no Sentence"),
        (("subword_nmt",), "--bpe-codes: missing"),
    ],
)
def test_subword_models(options, message, data, teacher):
    command = ("fairseq-interactive", data, "--user-dir", REPO / "pet_fairseq", "--path", teacher)
    refuses(run(*command, "--cpu", "--bpe", *options, check=False), message)
    refuses(in_process("encode", "--input", "-", "--bpe", *options), "pet-fairseq encode: error: ")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["model", "cfg", "optimizer_history", "extra_state"])
def test_a_checkpoint_that_lacks_a_part(part, data, teacher, tmp_path):
    """Whoever reads it: fairseq to generate or to go on, this package as a teacher."""
    path = tmp_path / "part.pt"
    state = torch.load(teacher)
    del state[part]
    torch.save(state, path)
    user_dir = ("--user-dir", REPO / "pet_fairseq", "--cpu")
    refuses(run("fairseq-generate", data, "--path", path, *user_dir, check=False), f"no `{part}`")
    going_on = ("--arch", "transformer_tiny", *CROSS_ENTROPY, "--restore-file", path)
    if part != "cfg":  # to go on, fairseq takes the options of the command
        refuses(train(data, tmp_path, *going_on, check=False), f"no `{part}`")
    distils = ("--criterion", "pet_distillation", "--teacher-path", path)
    refuses(train(data, tmp_path, *PET, *distils, check=False), path, f"has no `{part}`")


@pytest.mark.parametrize("options", [("--encoder-ffn-embed-dim", "24"), ("--optimizer", "adagrad")])
def test_a_folder_with_another_models_checkpoint(options, data, student, tmp_path):
    shutil.copy(student[0] / "checkpoint_last.pt", tmp_path)
    refuses(train(data, tmp_path, *PET, *options, check=False), "give another --save-dir")


def test_languages_that_are_exchanged(data, teacher, tmp_path):
    shutil.copytree(data, tmp_path / "bin")
    with (tmp_path / "bin/dict.en.txt").open("a") as file:
        file.write("another 1\n")  # both had as many words
    languages = ("--source-lang", "en", "--target-lang", "de")
    command = ("fairseq-generate", tmp_path / "bin", "--user-dir", REPO / "pet_fairseq", *languages)
    refuses(
        run(*command, "--path", teacher, "--cpu", check=False),
        *("trained with another dictionary", "not exchanged"),
    )


def test_data_without_a_language_pair(teacher, tmp_path):
    command = ("fairseq-generate", tmp_path, "--user-dir", REPO / "pet_fairseq", "--path", teacher)
    refuses(run(*command, "--cpu", check=False), "--source-lang and --target-lang: missing")


@pytest.mark.slow
def test_sentence_longer_than_the_positions(data, teacher, student_options, tmp_path):
    """fairseq's own refusal names the way out; a teacher that reads less is refused by us."""
    limits = ("--max-source-positions", "6", "--max-target-positions", "6", "--max-update", "2")
    result = train(data, tmp_path / "a", *student_options, *limits, check=False)
    assert result.status != 0
    assert "--skip-invalid-size-inputs-valid-test" in result.output
    skip = "--skip-invalid-size-inputs-valid-test"
    train(data, tmp_path / "b", *student_options, *limits, skip)
    short = (*CROSS_ENTROPY, "--arch", "transformer_tiny", *limits, skip)
    train(data, tmp_path / "teacher", *short)
    options = ("--criterion", "pet_distillation", "--teacher-path")
    refuses(
        train(
            *(data, tmp_path / "c", *PET, *options, tmp_path / "teacher/checkpoint_last.pt"),
            check=False,
        ),
        *("--max-source-positions 1024", "the teacher reads 6"),
    )
