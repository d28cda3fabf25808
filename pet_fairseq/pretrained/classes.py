"""Classification heads: what is the same for every family that has them."""

from pet_fairseq.errors import UserError
from pet_fairseq.pretrained.source import Source
from pet_fairseq.pretrained.vocabulary import Vocabulary, word_of

HEAD = "classification_heads.sentence_classification_head"
CLASSIFIER = "ForSequenceClassification"
REGRESSION, SEVERAL = "regression", "multi_label_classification"


def is_classifier(source: Source) -> bool:
    """Whether the files are those of a classifier of sentences, not of words or something else."""
    architectures = source.config.get("architectures") or []
    return any(str(name).endswith(CLASSIFIER) for name in architectures)


def labels(source: Source, rows: int) -> list[str]:
    """The names of the classes in their order.

    Args:
        rows: how many outputs the head has.
    Raises:
        UserError: config.json names another number of classes, or several are right at once.
    """
    config = source.config
    if config.get("problem_type") == SEVERAL:
        raise UserError(
            f"{config.path}: problem_type is {SEVERAL}; only models of one class per text are "
            "supported"
        )
    names = config.get("id2label")
    if names is None:
        names = {i: f"LABEL_{i}" for i in range(config.get("num_labels", rows))}
    if not isinstance(names, dict) or {str(key) for key in names} != {*map(str, range(len(names)))}:
        raise UserError(f"{config.path}: id2label does not count from 0; mend it")
    if len(names) != rows:
        raise UserError(
            f"{source.weights.path}: its head has {rows} classes, but {config.path.name} names "
            f"{len(names)}; give files that belong together"
        )
    by_number = {str(key): word_of(str(name)) for key, name in names.items()}
    return [by_number[str(i)] for i in range(rows)]


def classifier_task(
    source: Source, rows: int, separators: int, vocabulary: Vocabulary
) -> tuple[list[str], dict[str, str]]:
    """The options and dictionaries of fairseq's sentence_prediction for a model with its head.

    Args:
        rows: outputs of the head. separators: between the sentences of a pair, 1 or 2.
    """
    names = labels(source, rows)
    options = ["--task", "sentence_prediction", "--criterion", "sentence_prediction"]
    options += ["--num-classes", str(rows), *pair_options(separators)]
    if rows == 1 or source.config.get("problem_type") == REGRESSION:
        options.append("--regression-target")
    text = vocabulary.text()
    classes = "".join(f"{name} 1\n" for name in names)
    return options, {"dict.txt": text, "input0/dict.txt": text, "label/dict.txt": classes}


def pair_options(separators: int) -> list[str]:
    """How sentence_prediction puts texts together: the first sentence ends with one separator."""
    return ["--init-token", "0", *(["--separator-token", "2"] if separators == 2 else [])]
