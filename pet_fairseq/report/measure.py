"""What a finished run holds: parameters, bytes, training time, translations and their speed.

A run is a folder with checkpoint_best.pt (and checkpoint_last.pt) from fairseq-train, the output of
fairseq-generate as generate.beam<B>.<k>.txt (k counts repeats) and, if wanted, a title in name.txt.
"""

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import torch
from sacrebleu.metrics import BLEU

from pet_fairseq.checkpoints import load_checkpoint, unique_tensors
from pet_fairseq.errors import UserError

OUTPUT = re.compile(r"generate\.beam(\d+)\.(\d+)\.txt")
LINE = {  # of fairseq-generate: group 1 is the sentence's number, group 2 its text
    "D": re.compile(r"^D-(\d+)\t[^\t\n]*\t(.*)$", re.MULTILINE),
    "T": re.compile(r"^T-(\d+)\t(.*)$", re.MULTILINE),
}
SPEED = re.compile(r"Translated [\d,]+ sentences .*\(([\d.,]+) sentences/s")
LAYER = re.compile(r"(encoder|decoder)\.layers\.")


@dataclass
class Run:
    """Measurements of one run; what could not be measured is None and named in `missing`."""

    name: str
    title: str
    layer_parameters: Optional[int] = None
    parameters: Optional[int] = None
    checkpoint_bytes: Optional[int] = None  # without the optimizer's state
    training_seconds: Optional[float] = None
    bleu: Dict[int, float] = field(default_factory=dict)  # by beam
    sentences_per_second: Dict[int, float] = field(default_factory=dict)  # median over repeats
    repeats: int = 0
    outputs: List[str] = field(default_factory=list)  # names of the files it was measured from
    hypotheses: Dict[int, List[str]] = field(default_factory=dict)  # by beam, first repeat
    targets: Optional[List[str]] = None  # fairseq's own T- lines: which test set it was
    missing: List[str] = field(default_factory=list)


def measure_run(folder: Path, reference: List[str]) -> Run:
    """Measure one run against the raw reference lines.

    Raises:
        UserError: an unreadable checkpoint, or an output that does not fit the reference.
    """
    run = Run(folder.name, read_title(folder))
    if (folder / "checkpoint_best.pt").is_file():
        _measure_checkpoint(run, folder)
    else:
        run.missing.append("checkpoint_best.pt")
    outputs = _outputs(folder)
    if not outputs:
        run.missing.append("generate.beam<B>.<k>.txt")
    for beam, files in outputs.items():
        _measure_beam(run, beam, files, reference)
    return run


def read_title(folder: Path) -> str:
    """The text of name.txt on one line, or the folder's name."""
    file = folder / "name.txt"
    return (" ".join(read_text(file, "title").split()) if file.is_file() else "") or folder.name


def _measure_checkpoint(run: Run, folder: Path) -> None:
    state = load_checkpoint(str(folder / "checkpoint_best.pt"), "checkpoint")
    tensors = unique_tensors(state["model"])
    run.parameters = sum(t.numel() for t in tensors.values())
    run.layer_parameters = sum(t.numel() for n, t in tensors.items() if LAYER.match(n))
    run.checkpoint_bytes = stored_bytes(state)
    last = folder / "checkpoint_last.pt"
    if last.is_file():
        extra = load_checkpoint(str(last), "checkpoint")["extra_state"]
        run.training_seconds = extra.get("previous_training_time")
    if run.training_seconds is None:
        run.missing.append("checkpoint_last.pt with the training time")


class _Counter:
    """A file that only counts its bytes."""

    def __init__(self):
        self.bytes = 0

    def write(self, data) -> int:
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        pass


def stored_bytes(state: dict) -> int:
    """Size of a checkpoint file without the optimizer's state."""
    counter = _Counter()
    torch.save({k: v for k, v in state.items() if k != "last_optimizer_state"}, counter)
    return counter.bytes


def _outputs(folder: Path) -> Dict[int, List[Path]]:
    """Generation outputs by beam size, in the order of their repeats."""
    found: Dict[int, List[Tuple[int, Path]]] = defaultdict(list)
    for path in folder.iterdir():
        match = OUTPUT.fullmatch(path.name)
        if match:
            found[int(match[1])].append((int(match[2]), path))
    return {beam: [path for _, path in sorted(found[beam])] for beam in sorted(found)}


def _measure_beam(run: Run, beam: int, files: List[Path], reference: List[str]) -> None:
    speeds = [read_speed(path) for path in files]  # first: it tells unfinished outputs
    for path in files:
        _check_output(run, path, len(reference))
    run.hypotheses[beam] = read_lines(files[0], "D")
    run.bleu[beam] = bleu_metric().corpus_score(run.hypotheses[beam], [reference]).score
    run.sentences_per_second[beam] = statistics.median(speeds)
    run.repeats = max(run.repeats, len(files))


def _check_output(run: Run, path: Path, sentences: int) -> None:
    """Raises UserError if a file is not of the reference's length, or not of the run's test set."""
    translations = len(read_lines(path, "D"))
    if translations != sentences:
        raise UserError(
            f"{path}: {translations} translations, but the reference has {sentences} lines; give "
            "the reference of this test set, and generate without --quiet and with "
            "--required-batch-size-multiple 1"
        )
    targets = read_lines(path, "T")
    if targets and run.targets and targets != run.targets:
        raise UserError(
            f"{path}: another test set than in {run.outputs[0]}; delete the wrong one and generate "
            "again"
        )
    run.targets = run.targets or targets or None
    run.outputs.append(path.name)


def bleu_metric() -> BLEU:
    """sacreBLEU with its defaults: 13a tokens, mixed case."""
    return BLEU()


def read_lines(path: Path, kind: str) -> List[str]:
    """The D (detokenised hypothesis) or T (target) lines of fairseq-generate, in corpus order.

    Of several hypotheses for a sentence (--nbest) the first, which is the best.

    Raises:
        UserError: a sentence is missing.
    """
    found: Dict[int, str] = {}
    for number, text in LINE[kind].findall(read_text(path, "output")):
        found.setdefault(int(number), text)
    for i in range(len(found)):
        if i not in found:
            raise UserError(f"{path}: sentence {i} is missing; delete the file and generate again")
    return [found[i] for i in range(len(found))]


def read_speed(path: Path) -> float:
    """Sentences per second from fairseq-generate's log line.

    Raises:
        UserError: no such line, the command did not finish.
    """
    match = SPEED.search(read_text(path, "output"))
    if match is None:
        raise UserError(f"{path}: has no speed line, unfinished; delete it and generate again")
    return float(match[1].replace(",", ""))


def read_text(path: Path, what: str) -> str:
    """A file's text; `what` says in the error message what the file is.

    Raises:
        UserError: not UTF-8, as a file that was cut inside a character.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{what} {path}: not UTF-8 at byte {error.start}, cut short or in another encoding; "
            "make it again"
        ) from error
