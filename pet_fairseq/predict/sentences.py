"""What a text is: one sentence, or the two of a pair; and the errors of texts that are refused."""

from typing import Any

from pet_fairseq.errors import UserError

Sentences = tuple[str, ...]  # one, or the two of a pair
FIELDS = ("text", "pair")
FORMS = 'a string, or {"text": "...", "pair": "..."}'


class TextError(UserError):
    """A text that is refused: one line that says why."""


class TextTooLongError(TextError):
    """A text that is too long."""


class EmptyTextError(TextError):
    """A text with a sentence that has no words."""


def read_sentences(value: Any) -> Sentences:
    """The sentences of a text: "..." or {"text": "..."} or {"text": "...", "pair": "..."}.

    In Python a pair may be a tuple or list of its two sentences, too.

    Raises:
        TextError: anything else, or a sentence without words.
    """
    if isinstance(value, dict):
        if not {"text"} <= value.keys() <= {*FIELDS}:
            raise TextError(f"text: give {FORMS}, and no other fields")
        sentences = tuple(value[field] for field in FIELDS if field in value)
    elif isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise TextError(f"text: a pair has 2 sentences, not {len(value)}")
        sentences = tuple(value)
    else:
        sentences = (value,)
    for field, sentence in zip(FIELDS, sentences):
        check_sentence(field, sentence)
    return sentences


def check_sentence(field: str, sentence: Any) -> None:
    """Check that a sentence is a string with words; field: names it in errors.

    Raises:
        TextError: it is not a string, is blank, or holds half of a surrogate pair.
    """
    if not isinstance(sentence, str):
        raise TextError(f"{field}: give a string")
    if not sentence.strip():
        raise EmptyTextError(f"{field}: empty")
    try:
        sentence.encode("utf-8")
    except UnicodeEncodeError:  # JSON can name half of a surrogate pair
        raise TextError(f"{field}: holds a lone surrogate, which is no character") from None
