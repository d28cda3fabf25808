"""Templates: what stands around the parts of a record, also as a model's chat template has it."""

import json
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.tokenizer_file import OPTIONS, content
from pet_fairseq.selfcp.prompts import Record

TEMPLATE = "template.json"  # the template's file in a folder of data
JINJA = "chat_template.jinja"  # Hugging Face's file of a chat template


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


def read_chat_template(path: Path, words: Container[str] = ()) -> Template:
    """What a model's chat template has around a question and its answer.

    The cue is what a finished conversation has between them, which may be more than the template
    puts there for an answer to come: Qwen3 has an empty thought before an answer without thoughts,
    Mistral a space. What stands behind the answer ends before the model's own end of text: data
    have fairseq's </s> there, which has its place in an imported vocabulary.

    Args:
        path: tokenizer_config.json, or the template itself (chat_template.jinja).
        words: of the imported vocabulary. An end of text among them is not the one of config.json,
            which has become </s>: it stays behind the answer.
    Raises:
        UserError: no such file or template, or one that does not show a question and an answer.
    """
    source, options = _find_template(path)
    question, answer = "\u2460question\u2460", "\u2460answer\u2460"  # no template has these
    said = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    try:
        text = _render(source, said, options)
    except jinja2.TemplateError as error:
        raise UserError(f"--chat-template {path}: {error}; give --cue in its place") from error
    before, found, rest = text.partition(question)
    cue, ended, after = rest.partition(answer)
    if not found or not ended:
        lacking = "an answer" if found else "a question"
        raise UserError(
            f"--chat-template {path}: has no place for {lacking}; give --cue in its place"
        )
    end = content(options.get("eos_token"))
    return Template(before, cue, after.partition(end)[0] if end and end not in words else after)


def _find_template(path: Path) -> tuple[str, dict]:
    """A chat template, and the options in tokenizer_config.json, which name the special pieces.

    transformers 5 writes the template into a file beside tokenizer_config.json, older versions into
    that, as a text or, if there are several for different uses, as a list.

    Args:
        path: as for `read_chat_template`; the other file is looked for beside it.
    Raises:
        UserError: a file is missing or not readable, or none has a template.
    """
    config = path if path.suffix == ".json" else path.with_name(OPTIONS)
    options = _read_template(config, json.loads) if config.is_file() or config == path else {}
    options = options if isinstance(options, dict) else {}
    file = path if path != config else path.with_name(JINJA)
    source = None if file == path else options.get("chat_template")
    if isinstance(source, list):
        named = {t.get("name"): t.get("template") for t in source if isinstance(t, dict)}
        source = named.get("default")
    if source is None and (file == path or file.is_file()):
        source = _read_template(file, str)
    if not isinstance(source, str):
        raise UserError(
            f"--chat-template {path}: has no chat_template, and there is no {JINJA} beside it; "
            "give --cue in its place"
        )
    return source, options


def _read_template(file: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"--chat-template {file}: not readable ({error})") from error


class Generation(Extension):
    """The marks `{% generation %}` around an answer, which only transformers needs: left out."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _render(source: str, messages: list[dict], options: dict) -> str:
    """A conversation as a chat template shows it; `options` name the special pieces."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.globals["raise_exception"] = _raise
    special = {name: content(v) for name, v in options.items() if name.endswith("_token")}
    special = {name: piece or "" for name, piece in special.items()}
    template = environment.from_string(source)
    return template.render(messages=messages, add_generation_prompt=False, **special)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
