"""The requests that clients may send, and the error for anything else."""

import json
from typing import Any

from pet_fairseq.predict.sentences import FIELDS, Sentences, TextError, read_sentences

RETRY_SECONDS = 1  # after which a client may try again what was refused with status 503
FORMS = '{"text": "..."}, {"text": "...", "pair": "..."} or {"texts": [...]}'


class RequestError(Exception):
    """A request that is refused: its status and one line that says why."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def read_texts(body: bytes) -> tuple[list[Sentences], bool]:
    """The texts of a request, and whether it has a single one.

    A single text is {"text": "..."}, with "pair": "..." beside it for a pair of sentences; several
    are {"texts": [...]}, a list of strings and such objects.

    Raises:
        RequestError: 400 for anything else.
    """
    fields = read_json(body)
    if not isinstance(fields, dict) or not (
        {"text"} <= fields.keys() <= {*FIELDS} or fields.keys() == {"texts"}
    ):
        raise RequestError(400, f"body: give {FORMS}")
    single = "text" in fields
    texts = [fields] if single else fields["texts"]
    if not isinstance(texts, list) or not texts:
        raise RequestError(400, "texts: give a list of one or more texts")
    if any(isinstance(text, list) for text in texts):  # a pair in Python only
        raise RequestError(
            400, 'texts: holds a list; give a pair as {"text": "...", "pair": "..."}'
        )
    try:
        return [read_sentences(text) for text in texts], single
    except TextError as error:
        raise RequestError(400, str(error)) from None


def read_json(body: bytes) -> Any:
    """The JSON value of a body; raises RequestError 400 if it is none."""
    try:
        return json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(400, f"body: not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError):
        raise RequestError(400, "body: not JSON") from None
