"""Classification heads: what all families that have them share."""

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.source import Source
from pet_fairseq.huggingface.tokenizer_file import TokenizerFile, escape_spaces
from pet_fairseq.huggingface.vocabulary import FIRST, Vocabulary

HEAD = "classification_heads.sentence_classification_head"
CLASSES = "SequenceClassification"  # in the name of a class
HEADS = ("classifier.", "classification_head.")  # of whole texts, or of their words
TEXTS = ("first text", "second text")
REGRESSION, MULTI_LABEL = "regression", "multi_label_classification"


def is_classifier(source: Source) -> bool:
    """Whether the model classifies whole texts, by the class name in config.json.

    Raises:
        UserError: it names no class, and the weights have one of the heads that fit several.
    """
    architectures = source.config.get("architectures") or []
    heads = [name for name in source.weights if name.startswith(HEADS)]
    if heads and not architectures:
        raise UserError(
            f"{source.config.path}: has no architectures, and {source.weights.path.name} has a "
            f'head, {heads[0]}; name the class, such as "architectures": '
            f'["BertFor{CLASSES}"]'
        )
    return any(str(name).endswith(f"For{CLASSES}") for name in architectures)


def labels(source: Source, outputs: int) -> list[str]:
    """The names of the classes in their order, as words of fairseq's dictionary.

    Args:
        outputs: of the classification head.
    Raises:
        UserError: config.json names another number of classes, or two of one name, or a text may
            have several.
    """
    config = source.config
    if config.get("problem_type") == MULTI_LABEL:
        raise UserError(
            f"{config.path}: problem_type is {MULTI_LABEL}; only models of one class per text are "
            "supported"
        )
    names = config.get("id2label")
    if names is None:
        names = {i: f"LABEL_{i}" for i in range(config.get("num_labels", outputs))}
    if not isinstance(names, dict) or {str(key) for key in names} != {*map(str, range(len(names)))}:
        raise UserError(
            f"{config.path}: the keys of id2label are not 0, 1, 2, ...; download it again"
        )
    if len(names) != outputs:
        raise UserError(
            f"{source.weights.path}: its head has {outputs} classes, but {config.path.name} names "
            f"{len(names)}; give files that belong together"
        )
    by_number = {str(key): escape_spaces(str(name)) for key, name in names.items()}
    ordered = [by_number[str(i)] for i in range(outputs)]
    taken = [name for name in ordered if name in FIRST or ordered.count(name) > 1]
    if taken:
        raise UserError(
            f"{config.path}: {taken[0]} in id2label is the name of two classes, or a word of "
            f"fairseq's own ({', '.join(FIRST)}); give each class another name there"
        )
    return ordered


def classifier_task(
    source: Source, outputs: int, separators: int, vocabulary: Vocabulary
) -> tuple[list[str], dict[str, str]]:
    """The options, and the dictionaries by file name, of fairseq's task sentence_prediction.

    Args:
        outputs: of the classification head.
        separators: how many are between the sentences of a pair, 1 or 2.
    Raises:
        UserError: as `labels` and `check_layout`.
    """
    check_layout(source.tokenizer, separators, vocabulary)
    names = labels(source, outputs)
    options = ["--task", "sentence_prediction", "--criterion", "sentence_prediction"]
    options += ["--num-classes", str(outputs), *pair_options(separators)]
    if outputs == 1 or source.config.get("problem_type") == REGRESSION:
        options.append("--regression-target")
    text = vocabulary.text()
    classes = "".join(f"{name} 1\n" for name in names)
    return options, {"dict.txt": text, "input0/dict.txt": text, "label/dict.txt": classes}


def check_layout(file: TokenizerFile, separators: int, vocabulary: Vocabulary) -> None:
    """Check that a tokenizer makes <s> A </s> [</s>] B </s> of a pair, if it says what it makes.

    Raises:
        UserError: it makes something else.
    """
    if file.tokenizer.post_processor is None:
        return
    begin, end = (int(vocabulary.rows[FIRST.index(word)]) for word in ("<s>", "</s>"))
    pair = file.tokenizer.encode("a", "b")
    first, second = TEXTS
    layout: list[object] = []
    for number, text, kept in zip(pair.ids, pair.sequence_ids, pair.attention_mask):
        mark = number if text is None else TEXTS[text]
        if kept and not (mark in TEXTS and mark in layout):  # a text may have several tokens
            layout.append(mark)
    if layout != [begin, first, *[end] * separators, second, end]:
        raise UserError(
            f"{file.path}: puts other symbols around texts, or in other places, than its models do "
            "here; models with such a layout are not supported"
        )


def pair_options(separators: int) -> list[str]:
    """Options that join the sentences of a pair; the first one ends with a separator anyway."""
    return ["--init-token", "0", *(["--separator-token", "2"] if separators == 2 else [])]
