"""The settings of Variator's recipes, by data set."""

from pathlib import Path

from pet_fairseq.errors import UserError
from pet_fairseq.recipes.variator.setup import Settings
from pet_fairseq.runner.options import BACKBONE_TRAINING, BETAS, Options, rise_and_fall, words

QUESTIONS = words("--task translation --source-lang text --target-lang answer")


def schedule(max_tokens: int, lr: str, updates: int) -> Options:
    """Options for batch size and length; the learning rate rises for a tenth, then falls to 0.

    Args:
        lr: the highest learning rate.
    """
    return (*words(f"--max-tokens {max_tokens} --lr {lr}"), *rise_and_fall(updates))


def encoder_decoder(layers: int, width: int, ffn: int, heads: int) -> Options:
    return (
        *words("--arch transformer --share-all-embeddings"),
        *(
            word
            for stack in ("encoder", "decoder")
            for word in words(
                f"--{stack}-layers {layers} --{stack}-embed-dim {width} --{stack}-ffn-embed-dim "
                f"{ffn} --{stack}-attention-heads {heads} --{stack}-normalize-before"
            )
        ),
    )


CROSS_ENTROPY = words("--criterion label_smoothed_cross_entropy --dropout 0.1")
SPANS = words("--tokens-per-sample 128 --sample-break-mode none")
CLASSES = {"mnli": 3, "qnli": 2, "qqp": 2, "rte": 2, "sst2": 2, "mrpc": 2}
OWN_TASK = "own"  # sentences and classes of the user's


def count_classes(task: str, folder: Path) -> int:
    """How many classes a task has; for the user's own, those that its prepared data have.

    Raises:
        UserError: data of one's own that are not there.
    """
    if task != OWN_TASK:
        return CLASSES[task]
    path = folder / "classes.txt"
    if not path.is_file():
        raise UserError(
            f"--task {OWN_TASK}: {path}: no such file; make the data by examples/glue/prepare.sh "
            f"{OWN_TASK} FOLDER, or name them with --data"
        )
    return len(path.read_text(encoding="utf-8").splitlines())


def glue_classes(num_classes: int) -> Settings:
    """An encoder of 4 layers with a classification head."""
    return Settings(
        common=BACKBONE_TRAINING,
        task=words(
            f"--task pet_sentence_prediction --num-classes {num_classes} --init-token 0 "
            "--separator-token 2 --max-positions 512 --shorten-method truncate "
            "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric"
        ),
        raw_task=(*words("--task masked_lm --mask-multiple-length 3"), *SPANS),
        arch=words(
            "--arch roberta --encoder-layers 4 --encoder-embed-dim 256 "
            "--encoder-ffn-embed-dim 1024 --encoder-attention-heads 4"
        ),
        model_raw=(
            *words("--criterion masked_lm --max-positions 512 --dropout 0.1"),
            *schedule(2048, "1e-3", 1500),
        ),
        model_task=(
            *words("--criterion sentence_prediction --dropout 0.1"),
            *schedule(2048, "3e-4", 1000),
        ),
        plugins_raw=schedule(2048, "1e-3", 500),
        plugins_task=schedule(2048, "1e-3", 1000),
        whole_raw=schedule(2048, "3e-4", 500),
        whole_task=schedule(2048, "3e-4", 1000),
        length=32,
    )


ONE_SEPARATOR = ("--arch", "bert")  # between the sentences of a pair; RoBERTa has two


def one_separator(options: Options) -> Options:
    """The task's options without its separator, as the first sentence ends with one already."""
    place = options.index("--separator-token")
    return (*options[:place], *options[place + 2 :])


def glue_from_bert(
    num_classes: int,
    arch: Options,
    updates: int,
    raw_updates: int,
    model_updates: int,
    max_tokens: int,
) -> Settings:
    """A pre-trained encoder: shorter training, lower learning rates, shorter validation.

    Args:
        max_tokens: the size of a batch of the task; batches of raw text have 1,024 tokens.
    """
    common = (*BACKBONE_TRAINING, "--max-valid-steps", "100")
    classes = glue_classes(num_classes)
    options = one_separator(classes.task) if arch[:2] == ONE_SEPARATOR else classes.task
    return Settings(
        common,
        *(options, classes.raw_task, arch, classes.model_raw),
        model_task=(
            *words("--criterion sentence_prediction --dropout 0.1"),
            *schedule(max_tokens, "1e-4", model_updates),
        ),
        plugins_raw=schedule(1024, "1e-3", raw_updates),
        plugins_task=schedule(max_tokens, "1e-3", updates),
        whole_raw=schedule(1024, "1e-4", raw_updates),
        whole_task=schedule(max_tokens, "1e-4", updates),
        length=classes.length,
    )


GLUE_TEXT = Settings(
    common=BACKBONE_TRAINING,
    task=QUESTIONS,
    raw_task=(*words("--task span_masked_lm"), *SPANS),
    arch=encoder_decoder(3, 256, 1024, 4),
    model_raw=(*CROSS_ENTROPY, *schedule(2048, "1e-3", 1500)),
    model_task=(*CROSS_ENTROPY, *schedule(2048, "5e-4", 1000)),
    plugins_raw=schedule(2048, "1e-3", 500),
    plugins_task=schedule(2048, "1e-3", 1000),
    whole_raw=schedule(2048, "3e-4", 500),
    whole_task=schedule(2048, "3e-4", 1000),
    length=32,
)

SQUAD = Settings(
    common=BACKBONE_TRAINING,
    task=QUESTIONS,
    raw_task=words("--task span_masked_lm --tokens-per-sample 512 --sample-break-mode none"),
    arch=encoder_decoder(6, 512, 2048, 8),
    model_raw=(*CROSS_ENTROPY, *schedule(16384, "5e-4", 50000)),
    model_task=(*CROSS_ENTROPY, *schedule(16384, "3e-4", 10000)),
    plugins_raw=schedule(16384, "1e-3", 20000),
    plugins_task=schedule(16384, "1e-4", 8000),
    whole_raw=schedule(16384, "1e-4", 20000),
    whole_task=schedule(16384, "5e-5", 8000),
    length=256,
    precision="fp16",
)


def multi30k(source_lang: str, target_lang: str) -> Settings:
    """Plugins for a translation model that was trained before."""
    languages = ("--source-lang", source_lang, "--target-lang", target_lang)
    length = schedule(3000, "2e-3", 1500)
    return Settings(
        common=(
            *words("--num-workers 0 --optimizer adam"),
            *BETAS,
            *words("--lr-scheduler polynomial_decay"),
            *languages,
        ),
        task=words("--task translation"),
        raw_task=(),
        arch=(),
        model_raw=(),
        model_task=(),
        plugins_raw=(),
        plugins_task=length,
        whole_raw=(),
        whole_task=(*length, *words("--lr 5e-4 --dropout 0")),
        length=16,
    )
