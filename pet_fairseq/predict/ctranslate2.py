"""Translation by CTranslate2, with folders that `pet-fairseq export --to ctranslate2` wrote."""

import importlib.util
import json
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fairseq.data.data_utils import infer_language_pair

from pet_fairseq.checkpoints.dictionaries import dictionary_of
from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import (
    SIDES,
    around_data,
    around_engine,
    find_subword_model,
    read_languages,
)
from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_lines, read_text
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.predict.batches import MAX_LENGTH, MAX_SOURCE, BatchLimit, source_room
from pet_fairseq.predict.engine import Engine
from pet_fairseq.predict.load_model import PATH, choose_text
from pet_fairseq.predict.shared_options import BEAM_SEARCH, Search, refuse_options
from pet_fairseq.predict.text import Text, bpe_options

MISSING = "ctranslate2 is missing; pip install 'pet-fairseq[ctranslate2]'"
MODEL = "model.bin"
IN_COMPRESSED = "ctranslate2"  # the folder of the engine's form in what pet-fairseq compress writes
TWIN = "fairseq/model.pt"  # the same model for fairseq, beside it
COMPUTE_TYPES = {"auto": "default", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
NO_POSITION = r"No position encodings are defined for positions >= (\d+)"


def find_ctranslate2(path: str) -> Optional[Path]:
    """The folder of CTranslate2's form of a model: the one that is named, or one in it.

    Returns:
        None if there is none, or if CTranslate2 is missing and the folder has another form, too.
    """
    if Path(path, MODEL).is_file():
        return Path(path)
    inner = Path(path, IN_COMPRESSED)
    is_usable = has_ctranslate2() or not Path(path, TWIN).exists()
    return inner if is_usable and (inner / MODEL).is_file() else None


def has_ctranslate2() -> bool:
    """Whether CTranslate2 is installed."""
    return importlib.util.find_spec("ctranslate2") is not None


def load_engine(folder: Path, device: str = "cpu", threads: int = 1, compute_type: str = "default"):
    """CTranslate2's Translator, each of whose threads translates batches of its own.

    Raises:
        UserError: CTranslate2 is missing, or cannot use the model or the device.
    """
    try:
        import ctranslate2
    except ModuleNotFoundError as error:
        raise UserError(MISSING) from error
    gpus = ctranslate2.get_cuda_device_count()
    if device == "cuda" and not gpus:
        raise UserError("--device cuda: CTranslate2 finds no GPU here; give --device cpu")
    device = ("cuda" if gpus else "cpu") if device == "auto" else device
    try:
        engine = ctranslate2.Translator(
            str(folder),
            device=device,
            compute_type=compute_type,
            inter_threads=threads if device == "cpu" else 1,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        if "compute type" in str(error):
            raise UserError(
                f"--precision: CTranslate2 has no {compute_type} on this device; give fp32 or int8"
            ) from error
        raise UserError(f"{folder}: CTranslate2 cannot use it: {error}") from error
    tokens = LanguageTokens.of_folder(folder)
    return engine if tokens is None else BilingualEngine(engine, tokens)


class Result(NamedTuple):
    """What CTranslate2 says of a sentence."""

    hypotheses: list[list[str]]
    scores: list[float]


class BilingualEngine:
    """CTranslate2's Translator for plain sentences, around which it puts language tokens."""

    def __init__(self, engine, tokens: LanguageTokens):
        self.engine = engine
        self.tokens = tokens
        self.forced = len(tokens.decoder_start) - 1  # words in front of a translation

    def translate_batch(self, sentences: Sequence[Sequence[str]], **options: Any) -> list[Result]:
        """As Translator.translate_batch; hypotheses and lengths are without the tokens."""
        before, behind = self.tokens.source_prefix, self.tokens.source_end
        sources = [[*before, *sentence, *behind] for sentence in sentences]
        forced = list(self.tokens.decoder_start[1:])
        for name in ("min_decoding_length", "max_decoding_length"):
            if name in options:
                options[name] += len(forced)
        results = self.engine.translate_batch(sources, [forced] * len(sources), **options)
        return [
            Result([hypothesis[len(forced) :] for hypothesis in result.hypotheses], result.scores)
            for result in results
        ]


def translate_tokens(
    engine, sentences: Sequence[Sequence[str]], limit: BatchLimit, **options: Any
) -> list[list[str]]:
    """The translations of each sentence, the best first, as lines of tokens.

    Args:
        engine: of `load_engine`. options: of CTranslate2's translate_batch, such as beam_size.
    """
    results = engine.translate_batch(
        sentences,
        max_batch_size=limit.size,
        batch_type="tokens" if limit.counts_tokens else "examples",
        use_vmap=True,  # where the folder has a shortlist
        **options,
    )
    return [[" ".join(tokens) for tokens in result.hypotheses] for result in results]


class CTranslate2Engine(Engine):
    """A model in CTranslate2, which makes batches itself.

    Args:
        load: as `load_engine` with its arguments.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        text: Text,
        languages: dict[str, str],
        search: Search = BEAM_SEARCH,
    ):
        super().__init__(text, languages)
        self.load = load
        self.engine = load()
        self.room, self.longest = measure_source(self.engine), measure_target(self.engine)
        self.options = {
            "beam_size": 1 if search.sampling else search.beam,
            "length_penalty": search.lenpen,
            "num_hypotheses": search.nbest,
            "sampling_topk": search.sampling_topk if search.sampling else 1,
            "sampling_topp": search.sampling_topp or 1.0,
            "sampling_temperature": search.temperature,
            "max_decoding_length": self.longest,
        }

    def translate(self, sources: list[list[str]], limit: BatchLimit) -> list[list[str]]:
        return translate_tokens(self.engine, sources, limit, **self.options)

    def seed(self, number: int) -> None:
        import ctranslate2

        ctranslate2.set_random_seed(number % 2**32)
        del self.engine  # two of them would need twice the memory
        self.engine = self.load()  # its threads ask for the seed once, when they are new


def measure_source(engine) -> int:
    """The most tokens of a source that an engine of `load_engine` takes."""
    positions = _positions(lambda n: _attempt(engine, n, 1), MAX_SOURCE + 1)
    return source_room(positions, engine.tokens.around if is_bilingual(engine) else 1)


def measure_target(engine) -> int:
    """The most tokens of a translation; fairseq leaves one position free."""
    positions = _positions(lambda n: _attempt(engine, 1, n), MAX_LENGTH + 1)
    return positions - max(1, engine.forced if is_bilingual(engine) else 0)


def is_bilingual(engine) -> bool:
    return isinstance(engine, BilingualEngine)


def _attempt(engine, source: int, target: int) -> None:
    """Translate a source of some tokens into as many as `target` says."""
    lengths = {"min_decoding_length": target, "max_decoding_length": target}
    engine.translate_batch([["x"] * source], beam_size=1, **lengths)


def _positions(translate: Callable[[int], None], most: int) -> int:
    """How many positions a model has, `most` if it has more: CTranslate2 says so when it fails."""
    try:
        translate(most)
        return most
    except RuntimeError as error:
        positions = re.search(NO_POSITION, str(error))
        if positions is None:
            raise
        return int(positions[1])


def open_ctranslate2(folder: Path, args: Namespace, text_options: list[str]) -> CTranslate2Engine:
    """Load a model in CTranslate2 with everything that a text needs.

    Args:
        args: of the command line. text_options: its other words.
    Raises:
        UserError: CTranslate2 is missing or cannot use the model, or its text is not known.
        SystemExit: a wrong option, after a message.
    """
    refuse_options(args, ("ratio", "backbone_path"), "a model in CTranslate2 has no plugins")
    check_tokens(folder)
    folders = around_engine(folder)
    if args.data:
        folders = [*around_data(Path(args.data)), *folders]
    languages = _languages(folder, args.data)
    words = dictionary_of(read_vocabularies(folder)[0])
    if not (text_options or languages):
        _check_needs_no_languages(find_subword_model(words, folders))
    prog = f"pet-fairseq {args.command}"
    text = choose_text(text_options, words, languages, folders, prog)
    compute_type = COMPUTE_TYPES.get(args.precision, args.precision)
    search = Search.of(args).within(len(read_vocabularies(folder)[1]))
    # which thread draws for which sentence is chance
    threads = 1 if search.sampling else args.threads or usable_cores()
    load = partial(load_engine, folder, args.device, threads, compute_type)
    return CTranslate2Engine(load, text, languages, search)


def check_tokens(folder: Path) -> None:
    """Refuse a model of another converter that would read sentences without their end.

    CTranslate2's converter of transformers leaves it, and the tokens of languages, to whoever
    translates. `pet-fairseq compress` finds out what they are, and `export` writes them.

    Raises:
        UserError: such a model, or unreadable options.
    """
    file = folder / "config.json"
    if LanguageTokens.of_folder(folder) is not None or not file.is_file():
        return
    try:
        config = dict(json.loads(read_text(file, PATH)))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: cannot be read; convert the model again") from error
    if not reads_plain_sentences(config):
        raise UserError(
            f"{folder}: its converter left it open what stands around a sentence; let pet-fairseq "
            f"compress {folder} find out, and give the folder teacher/ctranslate2 of its --out here"
        )


def reads_plain_sentences(config: Mapping[str, Any]) -> bool:
    """Whether a model in CTranslate2 reads a sentence without what a tokenizer puts around it.

    CTranslate2 adds its end, or it has none, as OpenNMT's models, whose decoder begins with `<s>`.
    """
    return bool(config.get("add_source_eos")) or config.get("decoder_start_token") == "<s>"


def read_vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """The words of the sources and of the targets, in CTranslate2's order.

    Raises:
        UserError: the folder has no list of them, or one that is not readable.
    """
    source, target = (_read_vocabulary(folder, side) for side in ("source", "target"))
    return source, target


def _read_vocabulary(folder: Path, side: str) -> list[str]:
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        if (file := folder / f"{name}.txt").is_file():  # of CTranslate2 before version 3
            return read_lines(file, PATH)
        if (file := folder / f"{name}.json").is_file():
            try:
                return [str(word) for word in json.loads(read_text(file, PATH))]
            except (ValueError, TypeError, RecursionError) as error:
                raise UserError(f"{file}: cannot be read; export the model again") from error
    raise UserError(f"{PATH} {folder}: has no {side}_vocabulary.json; export the model again")


def _languages(folder: Path, data: Optional[str]) -> dict[str, str]:
    """The languages of a model: its own, those of its form for fairseq, else of the data folder.

    Returns:
        Nothing if neither tells.
    """
    if own := read_languages(folder):
        return own
    if (twin := folder.resolve().parent / TWIN).is_file():
        trained = load_options(str(twin), PATH).task
        return {side: getattr(trained, side) for side in SIDES}
    source, target = infer_language_pair(data) if data else (None, None)
    return {"source_lang": source, "target_lang": target} if source and target else {}


def _check_needs_no_languages(file: str) -> None:
    """Raise UserError if a subword model, "" for none, is one that comes with Moses."""
    if file and bpe_options(file)["_name"] == "subword_nmt":
        raise UserError(
            f"--data: missing; Moses, which comes with {file}, has to know the languages; give the "
            "folder from fairseq-preprocess, or --tokenizer moses --source-lang LANG --target-lang "
            "LANG and --bpe with its options"
        )
