"""Translation by ONNX Runtime, with folders that `pet-fairseq export --to onnx` wrote.

This module needs onnxruntime, which brings numpy along, and for raw text sentencepiece; neither
torch nor fairseq. B sentences, R beams of each, V words.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from pet_fairseq.byte_pieces import SPACE, join_bytes
from pet_fairseq.errors import UserError

GRAPHS = "onnx"  # the folder of the graphs, where transformers.js looks for them
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
QUANTIZED = "_quantized"  # at the end of the names of graphs with weights in 8 bits
MISSING = "pip install 'pet-fairseq[onnx]'"
PIECES = "source.spm"  # SentencePiece's model
GROUP = 64  # values of which numpy takes the maximum first
LANGUAGE_TOKEN = re.compile(r">>\S+?<<")


def find_graph(folder: Path, name: str) -> Optional[Path]:
    """The file of a graph in a folder, None if there is none."""
    files = (folder / GRAPHS / f"{name}{kind}.onnx" for kind in ("", QUANTIZED))
    return next((file for file in files if file.is_file()), None)


class OnnxModel:
    """An exported model that translates lists of words.

    Args:
        folder: of `pet-fairseq export --to onnx`. threads: that compute; 0: one for each core.
    Raises:
        UserError: ONNX Runtime is missing, or the folder's files cannot be used.
    """

    def __init__(self, folder: Union[str, Path], threads: int = 0):
        folder = Path(folder)
        self.encoder = open_graph(folder, ENCODER, threads)
        self.decoder = open_graph(folder, DECODER, threads)
        self.config: dict[str, Any] = read(folder, "config.json")
        self.numbers: dict[str, int] = read(folder, "vocab.json")
        self.words = list(read(folder, "target_vocab.json"))
        inputs = {i.name: i.shape for i in self.decoder.get_inputs()}
        outputs = [o.name.replace("present", "past_key_values") for o in self.decoder.get_outputs()]
        self.caches = outputs[1:]  # behind the logits, under the names of the decoder's inputs
        past = {name: shape for name, shape in inputs.items() if name.startswith("past")}
        self.own = {name: shape for name, shape in past.items() if ".decoder." in name}
        self.cross = {name: shape for name, shape in past.items() if ".encoder." in name}

    def translate(
        self, sources: Sequence[Sequence[str]], beam: int = 5, lenpen: float = 1.0
    ) -> list[list[list[str]]]:
        """Translate sentences in one batch, by fairseq's beam search.

        Args:
            sources: the words of each sentence, without marks of its end.
        Returns:
            the translations of each sentence, the best first, as words
        """
        unknown, config = self.config["unk_token_id"], self.config
        rows = [
            [
                *config["source_prefix"],
                *(self.numbers.get(word, unknown) for word in source),
                *config["source_end"],
            ]
            for source in sources
        ]
        tokens, mask = pad(rows, config["source_pad_token_id"])
        # at most so many, as in fairseq: all words but padding
        found = self._search(tokens, mask, min(beam, len(self.words) - 1), lenpen)
        begin = config["bos_token_id"]  # a word that fairseq leaves out, too
        return [
            [[self.words[i] for i in tokens if i != begin] for tokens in some] for some in found
        ]

    def _search(self, tokens, mask, beam: int, lenpen: float) -> list[list[list[int]]]:
        """The numbers of the words of the best translations; tokens, mask: B x S."""
        end, longest = self.config["eos_token_id"], self.config["max_target_tokens"]
        states = self.encoder.run(None, {"input_ids": tokens, "attention_mask": mask})[0]
        source = {"encoder_attention_mask": mask, "encoder_hidden_states": states}
        source |= {name: empty(shape, len(tokens)) for name, shape in self.cross.items()}
        own = {name: empty(shape, len(tokens)) for name, shape in self.own.items()}
        alive = np.arange(len(tokens))  # the sentences that go on
        history = np.zeros((len(tokens), 1, 0), dtype=np.int64)  # B x R x T
        totals = np.zeros((len(tokens), 1), dtype=np.float32)
        found: list[list[tuple[float, list[int]]]] = [[] for _ in tokens]
        new = np.tile(np.array(self.config["decoder_start"]), (len(tokens), 1))
        while True:
            length = history.shape[2] + 1  # with the word to come
            logits, presents = self._step(new, source | own)
            # one beam has nothing to be compared with but words of the same step
            scores = logits if beam == 1 else log_softmax(logits)
            scores[:, self.config["pad_token_id"]] = -np.inf
            if length == 1:  # fairseq's --min-len is 1
                scores[:, end] = -np.inf
            if length > longest:
                scores[:, np.arange(scores.shape[1]) != end] = -np.inf
            scores = scores.reshape(*totals.shape, -1) + totals[:, :, None]
            values, beams, words = best(scores, 2 * beam)
            ends = words == end
            for row, column in np.argwhere(ends[:, :beam] & (values[:, :beam] > -np.inf)):
                some = found[alive[row]]
                if len(some) < beam:
                    score = float(values[row, column]) / length**lenpen
                    some.append((score, history[row, beams[row, column]].tolist()))
            kept = np.array([len(found[i]) < beam for i in alive])
            if length > longest or not kept.any():
                break
            chosen = np.argsort(ends, axis=1, kind="stable")[kept, :beam]  # those that go on
            values, beams, words = (take(part[kept], chosen) for part in (values, beams, words))
            own = {name: presents[name] for name in own}
            source |= {name: presents[name] for name in self.cross if length == 1}
            rows = (np.flatnonzero(kept)[:, None] * totals.shape[1] + beams).ravel()
            if not np.array_equal(rows, np.arange(len(new))):
                own = {name: part[rows] for name, part in own.items()}
                if length == 1 or not kept.all():  # beams of a sentence have one source
                    source = {name: part[rows] for name, part in source.items()}
            history = take(history[kept], beams)
            history = np.concatenate([history, words[:, :, None]], axis=2)
            totals, alive, new = values, alive[kept], words.reshape(-1, 1)
        return [[tokens for _, tokens in sorted(some, key=lambda one: -one[0])] for some in found]

    def _step(self, new, inputs: dict):
        """The logits of the next word, and the cache under the names of the decoder's inputs."""
        logits, *presents = self.decoder.run(None, {"input_ids": new, **inputs})
        return logits[:, -1], dict(zip(self.caches, presents))


class OnnxTranslator:
    """An exported model with SentencePiece that translates text; arguments are those of its model.

    Raises:
        UserError: sentencepiece is missing, or the folder has no model of SentencePiece.
    """

    def __init__(self, folder: Union[str, Path], threads: int = 0):
        self.model = OnnxModel(folder, threads)
        self.pieces = load_pieces(Path(folder, PIECES))

    def translate(
        self, texts: Sequence[str], beam: int = 5, lenpen: float = 1.0, batch_size: int = 32
    ) -> list[str]:
        """The translation of each text; texts of similar lengths run together."""
        sources = [self._segment(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(sources[i]))
        translations = [""] * len(texts)
        for start in range(0, len(order), batch_size):
            batch = [i for i in order[start : start + batch_size] if sources[i]]
            found = self.model.translate([sources[i] for i in batch], beam, lenpen) if batch else []
            for i, some in zip(batch, found):
                translations[i] = text_of(some[0])
        return translations

    def _segment(self, text: str) -> list[str]:
        """The pieces of a text, as many as the model reads; a language token is one piece."""
        match = LANGUAGE_TOKEN.match(text)
        token = [match[0]] if match else []
        pieces = self.pieces.encode(text[len("".join(token)) :], out_type=str)
        return [*token, *pieces][: self.model.config["max_source_tokens"]]


def text_of(pieces: Sequence[str]) -> str:
    """The text of pieces; here is the model of the source alone, which may lack some."""
    return join_bytes(" ".join(pieces)).replace(" ", "").replace(SPACE, " ").strip()


def open_graph(folder: Path, name: str, threads: int):
    """A graph of a folder, ready to be computed.

    Raises:
        UserError: ONNX Runtime is missing, there is no such file, or it cannot be used.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise UserError(f"onnxruntime is missing; {MISSING}") from error
    file = find_graph(folder, name)
    if file is None:
        raise UserError(f"{folder}: has no {GRAPHS}/{name}.onnx; export the model again")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors: it warns of graphs that it cannot shrink
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own classes have no common base
        reason = str(error).splitlines()[0]
        raise UserError(f"{file}: ONNX Runtime cannot use it: {reason}") from error


def read(folder: Path, name: str) -> Any:
    """The content of a JSON file; raises UserError if it cannot be read."""
    try:
        return json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / name}: cannot be read; export the model again") from error


def load_pieces(file: Path):
    try:
        import sentencepiece
    except ModuleNotFoundError as error:
        raise UserError("sentencepiece is missing; pip install sentencepiece") from error
    if not file.is_file():
        raise UserError(f"{file}: no such file; export a model with SentencePiece")
    return sentencepiece.SentencePieceProcessor(model_file=str(file))


def pad(rows: list[list[int]], padding: int):
    """Rows of numbers as a matrix with padding at their ends, and its mask: B x S each."""
    longest = max(map(len, rows))
    tokens = np.full((len(rows), longest), padding, dtype=np.int64)
    for row, numbers in zip(tokens, rows):
        row[: len(numbers)] = numbers
    lengths = np.array([len(row) for row in rows])
    return tokens, (np.arange(longest) < lengths[:, None]).astype(np.int64)


def empty(shape: list, batch: int):
    """An empty cache; shape: of the graph's input, B x H x P x D."""
    return np.zeros((batch, shape[1], 0, shape[3]), dtype=np.float32)


def log_softmax(logits):
    """The log-probabilities of logits, B x V."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def best(scores, count: int):
    """The greatest scores of each sentence, the greatest first, and the beams and words of them.

    Args:
        scores: B x R x V.
    Returns:
        three of B x count
    """
    flat = scores.reshape(len(scores), -1)
    count = min(count, flat.shape[1] - 1)  # padding is never chosen
    chosen = in_best_groups(flat, count)
    chosen = take(chosen, greatest(take(flat, chosen), count))
    values = take(flat, chosen)
    order = np.argsort(-values, axis=1, kind="stable")
    values, chosen = take(values, order), take(chosen, order)
    return values, chosen // scores.shape[2], chosen % scores.shape[2]


def take(values, columns):
    """Some columns of each row: B x N (x ...) and B x count -> B x count (x ...)."""
    return values[np.arange(len(values))[:, None], columns]


def greatest(values, count: int):
    """The indices of so many greatest values of each row, in any order: B x N -> B x count."""
    return np.argpartition(values, -count, axis=1)[:, -count:]


def in_best_groups(flat, count: int):
    """The indices among which each row's greatest values are, a few in place of all N.

    numpy's partition is slow, its maximum is fast: the greatest `count` values are in the `count`
    groups that have the greatest maxima.

    Args:
        flat: B x N.
    """
    groups = flat.shape[1] // GROUP
    if groups <= count:
        return np.broadcast_to(np.arange(flat.shape[1]), flat.shape)
    grouped = flat[:, : GROUP * groups].reshape(len(flat), GROUP, groups)
    chosen = greatest(grouped.max(axis=1), count)
    inside = (chosen[:, None] + groups * np.arange(GROUP)[:, None]).reshape(len(flat), -1)
    rest = np.arange(GROUP * groups, flat.shape[1])
    return np.concatenate([inside, np.broadcast_to(rest, (len(flat), len(rest)))], axis=1)
