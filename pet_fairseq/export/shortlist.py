"""A shortlist for CTranslate2: the target pieces that each source piece may be translated by.

The output layer then computes the logits of these pieces only. CTranslate2 calls it a vocabulary
mapping, and uses it where a folder has one and `translate_batch` is told to.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from fairseq.data import ConcatDataset, Dictionary, LanguagePairDataset
from scipy.sparse import csr_matrix
from torch import Tensor

from pet_fairseq.checkpoints.subsets import even_steps
from pet_fairseq.files import write_lines

FILE = "vmap.txt"
ALWAYS = 100  # so many frequent target pieces are candidates in every sentence
PAIRS = 1_000_000  # more of them are not counted


def write_shortlist(folder: Path, sets: Sequence[LanguagePairDataset], candidates: int) -> None:
    """Write FILE, learnt from sets of pairs of sentences, which have the same dictionaries.

    Args:
        candidates: of each source piece, beside the frequent ones and the same piece in the target.
    """
    source, target = sets[0].src_dict, sets[0].tgt_dict
    first, second = (ConcatDataset(side) for side in zip(*((one.src, one.tgt) for one in sets)))
    rows = even_steps(len(first), PAIRS)
    sources = occurrences((first[i] for i in rows), source)
    targets = occurrences((second[i] for i in rows), target)
    frequent = np.argsort(-piece_counts(targets), kind="stable")[:ALWAYS]
    lines = ["\t" + " ".join(target[i] for i in frequent)]
    for piece, best in zip(source.symbols, likeliest(sources, targets, candidates)):
        words = [target[i] for i in best]
        if piece in target and piece not in words:  # names and numbers are copied
            words.append(piece)
        if words:
            lines.append(f"{piece}\t{' '.join(words)}")
    write_lines(folder / FILE, lines)


def occurrences(sentences: Iterable[Tensor], dictionary: Dictionary) -> csr_matrix:
    """Which pieces stand in which sentence: sentences x pieces, 1 or 0; special symbols never."""
    pieces = [np.unique(sentence.numpy()) for sentence in sentences]
    pieces = [row[row >= dictionary.nspecial] for row in pieces]
    ends = np.cumsum([0, *map(len, pieces)])
    ones = np.ones(ends[-1], dtype=np.float32)
    return csr_matrix((ones, np.concatenate(pieces), ends), shape=(len(pieces), len(dictionary)))


def piece_counts(occurring: csr_matrix) -> np.ndarray:
    """In how many sentences each piece stands."""
    return np.asarray(occurring.sum(axis=0)).ravel()


def likeliest(sources: csr_matrix, targets: csr_matrix, candidates: int) -> list[np.ndarray]:
    """For each source piece the target pieces with which it is associated most, the best first.

    Association is the log-likelihood ratio of both standing in a pair against chance.

    Args:
        sources, targets: of `occurrences`, for the same pairs.
    """
    together = (sources.T @ targets).tocsr()
    score = log_likelihood_ratio(
        together.data,
        np.repeat(piece_counts(sources), np.diff(together.indptr)),
        piece_counts(targets)[together.indices],
        sources.shape[0],
    )
    ranges = zip(together.indptr, together.indptr[1:])
    return [
        together.indices[begin:end][np.argsort(-score[begin:end], kind="stable")[:candidates]]
        for begin, end in ranges
    ]


def log_likelihood_ratio(
    both: np.ndarray, first: np.ndarray, second: np.ndarray, pairs: int
) -> np.ndarray:
    """How much more often than by chance two pieces stand in a pair (Dunning 1993, halved).

    Args:
        both: in how many of the pairs both stand; first, second: in how many each of them.
    Returns:
        0 where it is as often as by chance, negative where it is more rarely.
    """
    both, first, second = (np.asarray(x, dtype=np.float64) for x in (both, first, second))

    def term(count: np.ndarray, expected: np.ndarray) -> np.ndarray:
        safe = np.where(count > 0, count, 1)
        return np.where(count > 0, count * np.log(safe / expected), 0)

    with np.errstate(divide="ignore", invalid="ignore"):  # expected is 0 only where count is
        ratio = (
            term(both, first * second / pairs)
            + term(first - both, first * (pairs - second) / pairs)
            + term(second - both, (pairs - first) * second / pairs)
            + term(pairs - first - second + both, (pairs - first) * (pairs - second) / pairs)
        )
    return np.where(both * pairs >= first * second, ratio, -ratio)
