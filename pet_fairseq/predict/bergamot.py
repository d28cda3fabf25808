"""Translation by Bergamot, with folders that `pet-fairseq export --to marian` wrote.

Bergamot is the engine that translates in Firefox. It runs in Node here, from the package
@browsermt/bergamot-translator of npm.
"""

import json
import os
import shutil
import subprocess
from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Optional

import yaml

from pet_fairseq.checkpoints.text_files import read_languages
from pet_fairseq.errors import UserError
from pet_fairseq.files import read_text
from pet_fairseq.predict.engine import BatchEngine
from pet_fairseq.predict.load_model import PATH
from pet_fairseq.predict.shared_options import Search, refuse_gpu_and_precision, refuse_options
from pet_fairseq.predict.text import Text, build_text_of

CONFIG = "bergamot.yml"
VOCABULARY = "vocab.spm"
VARIABLE = "BERGAMOT_NODE_MODULES"
WORKER = "@browsermt/bergamot-translator/worker"
DRIVER = Path(__file__).with_suffix(".cjs")
ROOM = 127  # pieces of a source; the package splits longer ones (its max-length-break)
LENGTHENED = 2  # a translation has at most so many times the pieces of its source
PER_FILE = ("models", "vocabs", "relative-paths")  # what the package takes as bytes, not by name


def find_marian(path: str) -> Optional[Path]:
    """The folder of a model for Bergamot that is named, None if the path is of another kind."""
    return Path(path) if Path(path, CONFIG).is_file() else None


class Bergamot:
    """A process of Node that translates texts.

    Args:
        folder: of `pet-fairseq export --to marian`. worker: as `find_worker` gives it.
        beam: the beam size. lenpen: the length penalty.
    Raises:
        UserError: the folder's files cannot be used.
    """

    def __init__(self, folder: Path, worker: Path, beam: int = 1, lenpen: float = 1.0):
        config = read_config(folder)
        [model] = config["models"]
        options = {name: value for name, value in config.items() if name not in PER_FILE}
        # a text is one sentence, as for all other engines; several beams need their costs
        options |= {"ssplit-mode": "sentence", "skip-cost": beam == 1}
        options |= {"beam-size": beam, "normalize": lenpen}
        given = (worker, folder / model, folder / VOCABULARY, json.dumps(options))
        for file in given[1:3]:
            if not Path(file).is_file():
                raise UserError(f"{file}: no such file; export the model again")
        self.folder = folder
        # a pipe could fill up unread
        self.errors = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(
            ["node", *map(str, (DRIVER, *given))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            encoding="utf-8",
        )

    def translate(self, texts: list[str]) -> list[str]:
        """The translation of each text; raises UserError if the process cannot do it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(texts), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            self.process.communicate()
            self.errors.seek(0)
            lines = self.errors.read().strip().splitlines() or ["it ended"]
            raise UserError(f"{self.folder}: Bergamot cannot use it: {lines[-1]}") from error


class BergamotEngine(BatchEngine):
    """A model in Bergamot; its text is divided by its SentencePiece model."""

    room = ROOM
    longest = LENGTHENED * ROOM

    def __init__(self, bergamot: Bergamot, text: Text, languages: dict[str, str]):
        super().__init__(text, languages)
        self.bergamot = bergamot

    def translate_batch(self, sources: list[list[str]]) -> list[list[str]]:
        texts = [self.text.decode(" ".join(source)) for source in sources]
        return [[self.text.encode(found)] for found in self.bergamot.translate(texts)]


def open_marian(folder: Path, args: Namespace, text_options: list[str]) -> BergamotEngine:
    """Start Bergamot with a model.

    Args:
        args: of the command line. text_options: its other words.
    Raises:
        UserError: there is no Bergamot or no Node, the folder cannot be used, or an option that
            they lack.
    """
    refuse_options(args, ("ratio", "backbone_path"), "a model in Bergamot has no plugins")
    search = Search.of(args)
    if search.sampling or search.nbest > 1:
        name = "sampling" if search.sampling else "nbest"
        raise UserError(f"--{name}: Bergamot gives the best translation only; leave it out")
    refuse_gpu_and_precision(args, "Bergamot")
    if text_options:
        raise UserError(
            f"{text_options[0]}: a model in Bergamot reads text by its {VOCABULARY}; leave it out"
        )
    bergamot = Bergamot(folder, find_worker(), search.beam, search.lenpen)
    pieces = {"_name": "sentencepiece", "sentencepiece_model": str(folder / VOCABULARY)}
    return BergamotEngine(bergamot, build_text_of(None, pieces), read_languages(folder))


def find_worker() -> Path:
    """The folder of the package that runs in Node.

    Raises:
        UserError: Node or the package is missing.
    """
    if shutil.which("node") is None:
        raise UserError("node: missing; install Node.js, in which Bergamot runs")
    folder = os.environ.get(VARIABLE, "node_modules")
    worker = Path(folder, WORKER).absolute()
    if not worker.is_dir():
        raise UserError(
            f"{VARIABLE}: {folder} has no {Path(WORKER).parent}; run npm install "
            f"{Path(WORKER).parent}, and name its folder node_modules by this variable"
        )
    return worker


def read_config(folder: Path) -> dict[str, Any]:
    """The options of a folder; raises UserError if they cannot be read."""
    file = folder / CONFIG
    try:
        config = yaml.safe_load(read_text(file, PATH))
        [str(name) for name in config["models"]]
        return config
    except (yaml.YAMLError, TypeError, KeyError) as error:
        raise UserError(f"{file}: names no model; export the model again") from error
