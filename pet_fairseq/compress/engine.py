"""A model in CTranslate2 as a teacher: what its folder tells, and a folder of its own for it.

Such folders come from CTranslate2's converters, too, which leave out what text needs: the
subword model, the languages, and the language tokens of a multilingual model.
"""

import json
import math
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, Optional

from pet_fairseq.checkpoints.dictionaries import dictionary_of
from pet_fairseq.checkpoints.text_files import (
    LANGUAGES,
    SOURCE_MODEL,
    SUBWORD_FILES,
    TARGET_MODEL,
    around_engine,
    both_sides,
    copy_files,
    find_subword_model,
    write_languages,
)
from pet_fairseq.errors import UserError
from pet_fairseq.files import atomic_folder, read_text, write_json
from pet_fairseq.multilingual.language_tokens import END, FILE, LanguageTokens, check_language
from pet_fairseq.predict.ctranslate2 import MODEL, read_vocabularies, reads_plain_sentences

TEACHER = "TEACHER"
TRANSLATOR = "TransformerSpec"  # CTranslate2's name for encoder-decoders; T5's is the same
OLDEST = 4  # version of model.bin that tells the bytes of each tensor
CONFIG, TOKENIZER_OPTIONS = "config.json", "tokenizer_config.json"
LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/")
ROUNDING = ("_scale", "_zero", "_compensation")  # ends of names: what rounded weights need
EMBEDDINGS = "encoder/embeddings_0/weight"
PRECISIONS = ("float32", "int8", "int16", "int32", "float16", "bfloat16")  # in CTranslate2's order
POSITIONS = "position_encodings/encodings"
# language tokens: of both sides, such as deu_Latn, de_DE and __de__; of the target, >>de<<, <2de>
OF_BOTH = re.compile(r"__(\w+?)__|([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})")
OF_TARGET = re.compile(r">>(\w+)<<|<2(\w+)>")
FEWEST = 3  # languages of a multilingual model; a text may have a word or two that look like that


class Figures(NamedTuple):
    """How large a model in CTranslate2 is.

    Attributes:
        layers: of encoder and decoder. width: of the source's embeddings.
        layer_parameters, parameters: stored in the layers and in all, without tables of positions.
        positions: how many tokens encoder and decoder have positions for; None: any number.
        bytes: of its file. precision: of its weights.
    """

    layers: tuple[int, int]
    width: int
    layer_parameters: int
    parameters: int
    positions: tuple[Optional[int], Optional[int]]
    bytes: int
    precision: str


class Header(NamedTuple):
    """What a model.bin says before its numbers.

    Attributes:
        kind: CTranslate2's name of the architecture.
        shapes, types: of the stored tensors, by name; types are numbers of PRECISIONS.
        aliases: names of tensors that are equal to stored ones, by which they are stored.
    """

    kind: str
    shapes: dict[str, tuple[int, ...]]
    types: dict[str, int]
    aliases: dict[str, str]

    def stored(self, name: str) -> str:
        """The name under which a tensor is stored."""
        return self.aliases.get(name, name)


def read_header(file: Path) -> Header:
    """Read the names and shapes in a model.bin; its numbers are passed over.

    Raises:
        UserError: damaged, or of a version that does not tell them.
    """
    try:
        with file.open("rb") as content:
            return _read_header(content, file)
    except (struct.error, UnicodeDecodeError) as error:
        raise damage(file) from error


def damage(file: Path) -> UserError:
    return UserError(
        f"{file}: not a model of CTranslate2, or damaged; copy it or convert the model again"
    )


def _read_header(content: BinaryIO, file: Path) -> Header:
    """As CTranslate2 writes it: ctranslate2/specs/model_spec.py, `ModelSpec._serialize`."""

    def number(form: str = "I") -> int:
        return struct.unpack(f"={form}", content.read(struct.calcsize(f"={form}")))[0]

    def text() -> str:
        length = number("H")
        word = content.read(length)
        if len(word) < length:
            raise struct.error
        return word[:-1].decode()

    version = number()
    if not OLDEST <= version < 1 << 16:
        raise UserError(
            f"{file}: version {version} of CTranslate2's models, which is not known here; convert "
            "the model again"
        )
    kind, _revision = text(), number()
    shapes, types = {}, {}
    for _ in range(number()):
        name = text()
        shapes[name] = tuple(number() for _ in range(number("B")))
        types[name] = number("B")
        content.seek(number(), 1)
    aliases = {}
    for _ in range(number()):
        alias = text()
        aliases[alias] = text()
    return Header(kind, shapes, types, aliases)


def measure_engine(folder: Path) -> Figures:
    """How large the model of a folder is.

    Raises:
        UserError: its file cannot be read.
    """
    file = folder / MODEL
    header = read_header(file)
    stored = header.shapes.items()
    sizes = {name: math.prod(shape) for name, shape in stored if is_parameter(name, shape)}
    names = (*header.shapes, *header.aliases)
    layers = {match.groups() for name in names if (match := LAYER.match(name))}
    encoder, decoder = (sum(stack == of for of, _ in layers) for stack in ("encoder", "decoder"))
    tables = (
        header.shapes.get(header.stored(f"{stack}/{POSITIONS}")) for stack in ("encoder", "decoder")
    )
    of_source, of_target = (None if shape is None else shape[0] for shape in tables)
    embeddings = header.stored(EMBEDDINGS)
    matrix, kind = header.shapes.get(embeddings, ()), header.types.get(embeddings, -1)
    if len(matrix) != 2 or kind not in range(len(PRECISIONS)):
        raise damage(file)
    return Figures(
        layers=(encoder, decoder),
        width=matrix[1],
        layer_parameters=sum(size for name, size in sizes.items() if LAYER.match(name)),
        parameters=sum(sizes.values()),
        positions=(of_source, of_target),
        bytes=file.stat().st_size,
        precision=PRECISIONS[kind],
    )


def is_parameter(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is one of parameters, and not an option or what rounded numbers need."""
    return bool(shape) and not name.endswith((*ROUNDING, POSITIONS, "alignment_heads"))


# --- what a folder lacks --------------------------------------------------------------------------


def check_translates(folder: Path) -> None:
    """Raise UserError for a model in CTranslate2 that is no encoder-decoder of text."""
    kind = read_header(folder / MODEL).kind
    if kind != TRANSLATOR:
        raise UserError(
            f"{TEACHER} {folder}: a {kind.removesuffix('Spec')} in CTranslate2, which does not "
            "translate text; give an encoder-decoder such as OPUS-MT's or NLLB's"
        )


def subword_files(folder: Path) -> dict[str, Path]:
    """The subword models beside a model, by name; empty if there is none."""
    words = dictionary_of(read_vocabularies(folder)[0])
    file = find_subword_model(words, around_engine(folder))
    return {Path(name).name: Path(name) for name in both_sides(file) if name}


def named_files(bpe: Optional[Path], sentencepiece: Collection[Path]) -> dict[str, Path]:
    """The subword models that the user names, by the names under which they are looked for.

    Args:
        sentencepiece: one model, or one for each side.
    Raises:
        UserError: BPE codes and models, more than two models, or no such file.
    """
    if bpe is not None and sentencepiece:
        raise UserError("--bpe and --sentencepiece: both name a subword model; give one of them")
    if len(sentencepiece) > 2:
        raise UserError("--sentencepiece: give one model, or those of the source and the target")
    names = ("spm.model",) if len(sentencepiece) == 1 else (SOURCE_MODEL, TARGET_MODEL)
    files = {"bpe.codes": bpe} if bpe is not None else dict(zip(names, sentencepiece))
    for file in files.values():
        if not file.is_file():
            option = "--bpe" if bpe is not None else "--sentencepiece"
            raise UserError(f"{option} {file}: no such file")
    return files


def take(folder: Path, languages: tuple[str, str], files: Mapping[str, Path], out: Path) -> None:
    """Write a folder as `pet-fairseq export` does, for a model that is somewhere in CTranslate2.

    It has links to the model's own files; dictionaries as fairseq's; and what text needs.

    Args:
        languages: of the source and the target, as the model names them if it has several.
        files: subword models, by the names that they get; empty if there are none.
    Raises:
        UserError: a multilingual model that does not know the languages, or unreadable files.
    """
    sides = dict(zip(("source_lang", "target_lang"), languages))
    vocabularies = read_vocabularies(folder)
    tokens = LanguageTokens.of_folder(folder) or find_tokens(folder, vocabularies, languages)
    own = {CONFIG, FILE, LANGUAGES, *SUBWORD_FILES, TARGET_MODEL}
    with atomic_folder(out) as new:
        for file in folder.iterdir():
            if file.is_file() and file.name not in own and not file.name.startswith("dict."):
                (new / file.name).symlink_to(file.resolve())
        config = read_config(folder)
        if tokens is not None:
            tokens.write(new)
            config = config | {"decoder_start_token": tokens.decoder_start[0]}
        write_json(new / CONFIG, config)
        write_languages(new, **sides)
        copy_files(files, new)
        for language, words in zip(languages, vocabularies):
            dictionary_of(words).save(str(new / f"dict.{language}.txt"))


def read_config(folder: Path) -> dict:
    """A folder's options; empty in the folders of old versions. Raises UserError."""
    file = folder / CONFIG
    if not file.is_file():
        return {"add_source_eos": True}
    try:
        return dict(json.loads(read_text(file, TEACHER)))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read; convert the model again") from error


def find_tokens(
    folder: Path, vocabularies: tuple[list[str], list[str]], languages: tuple[str, str]
) -> Optional[LanguageTokens]:
    """What a model needs around a sentence, by its vocabularies and options; None if nothing.

    What its tokenizer puts behind a sentence has to be given, unless CTranslate2 adds it.

    Raises:
        UserError: it has tokens of languages, and not of these.
    """
    config = read_config(folder)
    end = () if reads_plain_sentences(config) else (str(config.get("eos_token", END)),)
    start = config.get("decoder_start_token") and str(config["decoder_start_token"])
    both, of_target = (known_languages(vocabularies[0], kind) for kind in (OF_BOTH, OF_TARGET))
    if len(both) >= FEWEST:
        for option, language in zip(("--source-lang", "--target-lang"), languages):
            check_language(option, language, both, folder)
        source, target = (both[language] for language in languages)
        is_behind = start is None or has_legacy_order(folder)
        prefix, end = ((), (*end, source)) if is_behind else ((source,), end)
        return LanguageTokens(prefix, end, (target,) if start is None else (start, target))
    if of_target:
        check_language("--target-lang", languages[1], of_target, folder)
        return LanguageTokens((of_target[languages[1]],), end, (start or END,))
    return LanguageTokens((), end, (start or END,)) if end else None


def known_languages(words: Iterable[str], kind: re.Pattern) -> dict[str, str]:
    """The words that are tokens of languages, by language."""
    found = filter(None, map(kind.fullmatch, words))
    return {next(filter(None, match.groups())): match[0] for match in found}


def has_legacy_order(folder: Path) -> bool:
    """Whether a tokenizer's options, if they are there, put the language behind the sentence."""
    file = folder / TOKENIZER_OPTIONS
    try:
        options = dict(json.loads(read_text(file, TEACHER))) if file.is_file() else {}
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read; remove it, or copy it again") from error
    return options.get("legacy_behaviour") is True
