"""How the rows of SelfCP's recipes are scored."""

from dataclasses import replace
from pathlib import Path

from pet_fairseq.runner.fairseq_commands import fairseq_generate, fairseq_validate
from pet_fairseq.runner.fairseq_options import Options
from pet_fairseq.runner.stage import PRODUCT, CommandLine, Kind, Stage

from .setup import Evaluate, Reading, Setup


def by_choice(candidates: Options) -> Evaluate:
    """Score by the share of prompts whose right candidate the model finds most probable."""

    def stages(setup: Setup, reading: Reading) -> list[Stage]:
        stage = scored_at_once("choose", setup, reading, ("--candidates", *candidates))
        return [replace(stage, renamed=(("--path", ""),))]

    return stages


def by_loss(setup: Setup, reading: Reading) -> list[Stage]:
    """Score by the loss of the right responses, record by record."""
    return [scored_at_once("response-loss", setup, reading)]


def scored_at_once(command: str, setup: Setup, reading: Reading, options: Options = ()) -> Stage:
    """The stage of a command that reads the prompts of a row and scores them itself."""
    words: CommandLine = (
        *("pet-fairseq", command, str(reading.checkpoint), "--data", str(setup.data), *options),
        *("--prompt-strategy", reading.strategy, "--memory-ratio", str(reading.ratio)),
        *("--device", setup.device.name, "--out", PRODUCT),
    )
    out = reading.folder / "result.json"
    inputs = (setup.data, setup.backbone, reading.checkpoint)
    return Stage(reading.folder.name, (reading.row,), words, out, inputs)


def text_options(data: Path) -> Options:
    """Options that make text of the pieces of a data folder."""
    tokenizer = data / "tokenizer.json"
    if tokenizer.is_file():
        return ("--bpe", "tokenizer_json", "--tokenizer-file", str(tokenizer))
    return ("--bpe", "sentencepiece", "--sentencepiece-model", str(data / "spm.model"))


def by_rouge(options: Options) -> Evaluate:
    """Score generated responses by ROUGE, and the right ones by their perplexity."""

    def stages(setup: Setup, reading: Reading) -> list[Stage]:
        folder, name = reading.folder, reading.folder.name
        overrides = f"{{'prompt_strategy': '{reading.strategy}', 'memory_ratio': {reading.ratio}}}"
        output, log, out = (folder / n for n in ("generate.txt", "validate.txt", "result.json"))
        inputs = (setup.data, setup.backbone, reading.checkpoint)
        model = ("--task", "selfcp", "--model-overrides", overrides)
        pieces = text_options(setup.data)
        generate = Stage(
            f"{name}/generate",
            (reading.row,),
            command=fairseq_generate(
                setup.device, setup.data, reading.checkpoint, (*model, *pieces, *options)
            ),
            product=output,
            inputs=inputs,
            kind=Kind.STDOUT,
        )
        validate = Stage(
            f"{name}/validate",
            (reading.row,),
            command=fairseq_validate(
                setup.device,
                setup.data,
                reading.checkpoint,
                (*model, "--valid-subset", "test", "--max-tokens", "8000"),
            ),
            product=log,
            inputs=inputs,
            kind=Kind.STDOUT,
        )
        command = (
            *("pet-fairseq", "score", "rouge", str(output), "--validation", str(log)),
            *("--out", PRODUCT),
        )
        score = Stage(name, (reading.row,), command, out, (output, log))
        return [generate, validate, score]

    return stages
