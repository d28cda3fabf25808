"""Translation by ONNX Runtime as `pet-fairseq translate` does it, by the model of onnx_model.py."""

from argparse import Namespace
from pathlib import Path
from typing import Optional

from pet_fairseq.checkpoints.dictionaries import dictionary_of
from pet_fairseq.checkpoints.text_files import SIDES, around_data
from pet_fairseq.devices import usable_cores
from pet_fairseq.errors import UserError
from pet_fairseq.predict.engine import BatchEngine
from pet_fairseq.predict.load_model import choose_text
from pet_fairseq.predict.onnx_model import ENCODER, OnnxModel, find_graph
from pet_fairseq.predict.shared_options import Search, refuse_gpu_and_precision, refuse_options
from pet_fairseq.predict.text import Text


class OnnxEngine(BatchEngine):
    """A model in ONNX."""

    def __init__(self, model: OnnxModel, text: Text, languages: dict[str, str], search: Search):
        super().__init__(text, languages)
        self.model = model
        self.search = search
        self.room = model.config["max_source_tokens"]
        self.longest = model.config["max_target_tokens"]

    def translate_batch(self, sources: list[list[str]]) -> list[list[str]]:
        found = self.model.translate(sources, self.search.beam, self.search.lenpen)
        return [[" ".join(best) for best in some[: self.search.nbest]] for some in found]


def open_onnx(folder: Path, args: Namespace, text_options: list[str]) -> OnnxEngine:
    """Load a model in ONNX with everything that a text needs; arguments as for `open_ctranslate2`.

    Raises:
        UserError: ONNX Runtime is missing or cannot use the model, or an option that it lacks.
        SystemExit: a wrong option, after a message.
    """
    refuse_options(args, ("ratio", "backbone_path"), "a model in ONNX has no plugins")
    search = Search.of(args)
    if search.sampling:
        raise UserError("--sampling: models in ONNX translate by beam search only; leave it out")
    refuse_gpu_and_precision(args, "ONNX Runtime")
    model = OnnxModel(folder, args.threads or usable_cores())
    words = dictionary_of(model.numbers)
    languages = dict(zip(SIDES, model.config["languages"]))
    folders = [*(around_data(Path(args.data)) if args.data else ()), folder]
    text = choose_text(text_options, words, languages, folders, f"pet-fairseq {args.command}")
    return OnnxEngine(model, text, languages, search)


def find_onnx(path: str) -> Optional[Path]:
    """The folder of a model in ONNX that is named, None if the path is of another kind."""
    return Path(path) if find_graph(Path(path), ENCODER) else None
