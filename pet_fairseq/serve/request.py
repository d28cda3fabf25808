"""Requests of clients: what they may send, and the error for anything else."""

import json
from typing import Any


class RequestError(Exception):
    """A request that is refused: its status and one line that says why."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def read_texts(body: bytes) -> tuple[list[str], bool]:
    """The texts in {"text": "..."} or {"texts": ["...", ...]}, and whether it was the first form.

    Raises:
        RequestError: 400, anything else.
    """
    fields = read_json(body)
    if not isinstance(fields, dict) or len(fields) != 1 or not fields.keys() <= {"text", "texts"}:
        raise RequestError(400, 'body: give {"text": "..."} or {"texts": ["...", ...]}')
    single = "text" in fields
    texts = [fields["text"]] if single else fields["texts"]
    if not isinstance(texts, list) or not texts:
        raise RequestError(400, "texts: give a list of one or more texts")
    for text in texts:
        check_text(text)
    return texts, single


def read_json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(400, f"body: not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError):
        raise RequestError(400, "body: not JSON") from None


def check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise RequestError(400, "text: give a string")
    if not text.strip():
        raise RequestError(400, "text: empty")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # JSON can name half of a surrogate pair
        raise RequestError(400, "text: holds a lone surrogate, which is no character") from None
