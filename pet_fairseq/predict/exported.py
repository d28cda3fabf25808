"""Translation by CTranslate2, with folders that `pet-fairseq export --to ctranslate2` wrote."""

import json
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair

from pet_fairseq.checkpoints.safe_loading import load_options
from pet_fairseq.checkpoints.text_files import SUBWORD_FILES, around_data, find_file, read_languages
from pet_fairseq.decoding.export import MISSING, has_ctranslate2
from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError
from pet_fairseq.multilingual.language_tokens import LanguageTokens
from pet_fairseq.predict.batches import MAX_LENGTH, MAX_SOURCE, Limit
from pet_fairseq.predict.load_model import PATH, choose_text
from pet_fairseq.predict.options import BEAM_SEARCH, Search
from pet_fairseq.predict.text import (
    LANGUAGES,
    Text,
    bpe_options,
)

MODEL = "model.bin"
IN_COMPRESSED = "ctranslate2"  # the folder of the engine's form in what pet-fairseq compress writes
TWIN = "fairseq/model.pt"  # the same model for fairseq, beside it
COMPUTE_TYPES = {"auto": "default", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
NO_POSITION = r"No position encodings are defined for positions >= (\d+)"


def find_exported(path: str) -> Optional[Path]:
    """The folder of CTranslate2's form of a model: the one that is named, or one in it.

    Returns:
        None if there is none, or if CTranslate2 is missing and the folder has another form, too.
    """
    if Path(path, MODEL).is_file():
        return Path(path)
    inner = Path(path, IN_COMPRESSED)
    is_usable = has_ctranslate2() or not Path(path, TWIN).exists()
    return inner if is_usable and (inner / MODEL).is_file() else None


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
    engine, sentences: Sequence[Sequence[str]], limit: Limit, **options: Any
) -> list[list[str]]:
    """The translations of each sentence, the best first, as lines of tokens.

    Args:
        engine: of `load_engine`. options: of CTranslate2's translate_batch, such as beam_size.
    """
    results = engine.translate_batch(
        sentences,
        max_batch_size=limit.size,
        batch_type="tokens" if limit.counts_tokens else "examples",
        **options,
    )
    return [[" ".join(tokens) for tokens in result.hypotheses] for result in results]


class ExportedTranslator:
    """A model in CTranslate2 and its tokenisation.

    Args:
        load: as `load_engine` with its arguments. languages: as `text.languages_of`.
    Attributes:
        room, longest: as those of an `Engine` of translate.py.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        text: Text,
        languages: dict[str, str],
        search: Search = BEAM_SEARCH,
    ):
        self.load = load
        self.engine = load()
        self.text = text
        self.languages = languages
        # the position of a source's end is taken, and fairseq leaves one in the target free
        self.room = _positions(lambda n: self._try([["x"] * n]), MAX_SOURCE + 1) - 1
        positions = _positions(lambda n: self._try([["x"]], min_decoding_length=n), MAX_LENGTH + 1)
        self.longest = positions - 1
        self.options = {
            "beam_size": 1 if search.sampling else search.beam,
            "length_penalty": search.lenpen,
            "num_hypotheses": search.nbest,
            "sampling_topk": search.sampling_topk if search.sampling else 1,
            "sampling_topp": search.sampling_topp or 1.0,
            "sampling_temperature": search.temperature,
            "max_decoding_length": self.longest,
        }

    def _try(self, sentences: list[list[str]], min_decoding_length: int = 1) -> None:
        self.engine.translate_batch(
            sentences,
            beam_size=1,
            min_decoding_length=min_decoding_length,
            max_decoding_length=min_decoding_length,
        )

    def tokenise(self, text: str) -> list[str]:
        return self.text.encode(text).split()

    def translate(self, sources: list[list[str]], limit: Limit) -> list[list[str]]:
        return translate_tokens(self.engine, sources, limit, **self.options)

    def detokenise(self, pieces: str) -> str:
        return self.text.decode(pieces)

    def seed(self, number: int) -> None:
        import ctranslate2

        ctranslate2.set_random_seed(number % 2**32)
        self.engine = self.load()  # its threads ask for the seed once, when they are new


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


def open_exported(folder: Path, args: Namespace, text_options: list[str]) -> ExportedTranslator:
    """Load a model in CTranslate2 with everything that a text needs.

    Args:
        args: of the command line. text_options: its other words.
    Raises:
        UserError: CTranslate2 is missing or cannot use the model, or its text is not known.
        SystemExit: a wrong option, after a message.
    """
    for option in ("ratio", "backbone_path"):
        if getattr(args, option) is not None:
            name = option.replace("_", "-")
            raise UserError(f"--{name}: a model in CTranslate2 has no plugins; leave it out")
    folders = around_data(folder)
    if args.data:
        folders = [*around_data(Path(args.data)), *folders]
    languages = _languages(folder, args.data)
    if not (text_options or languages):
        _check_needs_no_languages(find_file(SUBWORD_FILES, folders))
    prog = f"pet-fairseq {args.command}"
    text = choose_text(text_options, _words(folder), languages, folders, prog)
    compute_type = COMPUTE_TYPES.get(args.precision, args.precision)
    search = Search.of(args)
    # which thread draws for which sentence is chance
    threads = 1 if search.sampling else args.threads or usable_cores()
    load = partial(load_engine, folder, args.device, threads, compute_type)
    return ExportedTranslator(load, text, languages, search)


def _words(folder: Path) -> Dictionary:
    """The words of the sources, as a dictionary of fairseq.

    Raises:
        UserError: the folder has no list of them.
    """
    for name in ("source_vocabulary.json", "shared_vocabulary.json"):
        if (folder / name).is_file():
            words = Dictionary()
            for word in json.loads((folder / name).read_text(encoding="utf-8")):
                words.add_symbol(word)
            return words
    raise UserError(f"{PATH} {folder}: has no source_vocabulary.json; export the model again")


def _languages(folder: Path, data: Optional[str]) -> dict[str, str]:
    """The languages of a model: its own, those of its form for fairseq, else of the data folder.

    Returns:
        Nothing if neither tells.
    """
    if own := read_languages(folder):
        return own
    if (twin := folder.resolve().parent / TWIN).is_file():
        trained = load_options(str(twin), PATH).task
        return {side: getattr(trained, side) for side in LANGUAGES}
    source, target = infer_language_pair(data) if data else (None, None)
    return {"source_lang": source, "target_lang": target} if source and target else {}


def _check_needs_no_languages(file: str) -> None:
    """Raise UserError if a file that divides words, "" for none, is one that comes with Moses."""
    if file and bpe_options(file)["_name"] == "subword_nmt":
        raise UserError(
            f"--data: missing; Moses, which comes with {file}, has to know the languages; give the "
            "folder from fairseq-preprocess, or --tokenizer moses --source-lang LANG --target-lang "
            "LANG and --bpe with its options"
        )
