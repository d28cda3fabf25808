"""Queries, prompts and responses as JSON lines: read one at a time and checked."""

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tqdm import tqdm

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import content

TEMPLATE = "template.json"  # what stands around the parts of the records of a folder of data
BLOCK = 1 << 20  # bytes of an overlong line that are in memory at a time


class Record(NamedTuple):
    query: str
    prompt: str
    response: str


class Template(NamedTuple):
    """What stands around the parts of a record.

    The parts are tokenized one by one, so no piece reaches from one into the next. Most tokenizers
    have pieces of a space and a word, so the space between two parts belongs to the later one.

    Attributes:
        before: in front of the query. cue: between prompt and response, where it is never
            compressed; spaces at its end are tokenized with the response. after: behind the
            response, of which it is a part. between: between a query and a prompt that are not
            empty, as a part of the prompt.
    """

    before: str = ""
    cue: str = ""
    after: str = ""
    between: str = " "

    def around(self, record: Record) -> Record:
        """The record with what stands around its parts; the cue is a part of its own."""
        query = self.before + record.query
        between = self.between if query and record.prompt else ""
        return Record(query, between + record.prompt, self.answer(record.response))

    def cue_alone(self) -> str:
        """The cue without the spaces at its end."""
        return self.cue.rstrip(" ")

    def answer(self, response: str) -> str:
        """A response with what is tokenized with it."""
        return self.cue[len(self.cue_alone()) :] + response + self.after


BARE = Template()


def read_template(folder: Path) -> Template:
    """The template that a folder of data was made with.

    Raises:
        UserError: its file is damaged.
    """
    path = folder / TEMPLATE
    if not path.is_file():
        return BARE
    try:
        return Template(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path}: not readable ({error}); make the data again") from error


def read_chat_template(path: Path) -> Template:
    """What a model's chat template has around a question and its answer.

    What stands behind the answer ends before the model's own end of text: data have fairseq's </s>
    there, which has its place in an imported vocabulary.

    Args:
        path: tokenizer_config.json, or the template itself (chat_template.jinja), whose special
            pieces are named by the tokenizer_config.json beside it, if there is one.
    Raises:
        UserError: no such file or template, or one that does not show a question and an answer.
    """
    beside = path if path.suffix == ".json" else path.with_name("tokenizer_config.json")
    options = _read_template(beside, json.loads) if beside.is_file() or beside == path else {}
    if beside != path and isinstance(options, dict):
        options["chat_template"] = _read_template(path, str)
    source = options.get("chat_template") if isinstance(options, dict) else None
    if not isinstance(source, str):
        raise UserError(f"--chat-template {path}: has no chat_template; give --cue in its place")
    question, answer = "\u2460question\u2460", "\u2460answer\u2460"  # no template has these
    asked = [{"role": "user", "content": question}]
    answered = [*asked, {"role": "assistant", "content": answer}]
    try:
        start = _render(source, asked, options, add_generation_prompt=True)
        whole = _render(source, answered, options, add_generation_prompt=False)
    except jinja2.TemplateError as error:
        raise UserError(f"--chat-template {path}: {error}; give --cue in its place") from error
    before, found, cue = start.partition(question)
    _, ended, after = whole.partition(answer)
    if not found or not ended:
        lacking = "an answer" if found else "a question"
        raise UserError(
            f"--chat-template {path}: has no place for {lacking}; give --cue in its place"
        )
    end = content(options.get("eos_token"))
    return Template(before, cue, after.partition(end)[0] if end else after)


def _read_template(file: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"--chat-template {file}: not readable ({error})") from error


def _render(source: str, messages: list[dict], options: dict, **settings) -> str:
    """A conversation as a chat template shows it; `options` name the special pieces."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _raise
    special = {name: content(v) for name, v in options.items() if name.endswith("_token")}
    special = {name: piece or "" for name, piece in special.items()}
    return environment.from_string(source).render(messages=messages, **special, **settings)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def read_records(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, Record]]:
    """Read the records of a file of JSON lines, each with its place; empty lines are left out.

    Args:
        max_bytes: the longest line, its end included. action: word for the progress bar.
    Raises:
        UserError: names file and line.
    """
    empty = True
    for where, line in _text_lines(path, max_bytes, action):
        empty = False
        yield where, _parse(line, where)
    if empty:
        raise UserError(f"{path}: no records; give a JSON object in each line")


def read_paragraphs(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, str]]:
    """Read the lines of a text that are not empty, each with its place, as `read_records` does."""
    for where, line in _text_lines(path, max_bytes, action):
        yield where, line.strip()


def cut(text: str, length: int) -> Iterator[str]:
    """Cut a text into parts of at most `length` characters, before a space where there is one."""
    start = 0
    while len(text) - start > length:
        blank = text.rfind(" ", start + 1, start + length + 1)
        end = blank if blank > start else start + length
        yield text[start:end]
        start = end
    yield text[start:]


# --- lines ----------------------------------------------------------------------------------------


def _text_lines(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, str]]:
    for where, line in _lines(path, max_bytes, action):
        try:
            text = line.decode("utf-8").removeprefix("\ufeff")  # some editors begin a file so
        except UnicodeDecodeError as error:
            raise UserError(
                f"{where}: not UTF-8 (0x{line[error.start]:02x} at byte {error.start} of the "
                "line); convert the file"
            ) from error
        if text and not text.isspace():
            yield where, text


def _lines(path: Path, max_bytes: int, action: str) -> Iterator[tuple[str, bytes]]:
    """Read the lines of a file, gzipped or not; a bar on stderr counts bytes of the file."""
    bar = tqdm(
        **{"desc": f"{action} {path.name}", "total": path.stat().st_size, "file": sys.stderr},
        **{"unit": "B", "unit_scale": True, "mininterval": 2},
    )
    with bar, path.open("rb") as file:
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        number = 1
        try:
            while line := stream.readline(max_bytes + 1):
                where = f"{path}: line {number}"
                if len(line) > max_bytes:
                    raise UserError(_too_large(where, line, stream, max_bytes))
                yield where, line
                bar.update(file.tell() - bar.n)
                number += 1
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(
                f"{path}: line {number}: not gzip, or cut short ({error}); give the whole file"
            ) from error


def _too_large(where: str, start: bytes, stream: BinaryIO, max_bytes: int) -> str:
    """The error for a line that is too long, with its full size; reads the line to its end."""
    size, block = len(start), start
    while block and not block.endswith(b"\n"):
        block = stream.readline(BLOCK)
        size += len(block)
    return (
        f"{where}: {size / 1e6:,.1f} MB, more than --max-record-mb {max_bytes / 1e6:g}; cut it, or "
        "give a larger value if there is memory for it"
    )


def _parse(line: str, where: str) -> Record:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); give one object a line") from error
    except MemoryError as error:
        raise UserError(
            f"{where}: {len(line) / 1e6:,.1f} million characters do not fit into memory; cut it"
        ) from error
    if not isinstance(fields, dict):
        raise UserError(f"{where}: not a JSON object; give one with {', '.join(Record._fields)}")
    for name in Record._fields:
        _check_field(fields, name, where)
    if not fields["response"].strip():
        raise UserError(f"{where}: 'response' is empty; give one or leave the record out")
    return Record(*(fields[name] for name in Record._fields))


def _check_field(fields: dict, name: str, where: str) -> None:
    if name not in fields:
        raise UserError(f"{where}: no field '{name}'; give {', '.join(Record._fields)}")
    if not isinstance(fields[name], str):
        raise UserError(f"{where}: '{name}' is not a string; write it in quotation marks")
    try:
        fields[name].encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(fields[name][error.start])
        raise UserError(
            f"{where}: '{name}' has half a character, \\u{code:04x}, that UTF-8 cannot hold; mend "
            "the line"
        ) from error
