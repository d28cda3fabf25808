"""Writing tokens to fairseq's binary files, one item at a time; only lengths stay in memory."""

from pathlib import Path

import numpy as np
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder, best_fitting_int_dtype

from pet_fairseq.selfcp.vocabulary import Vocabulary


class BinaryWriter:
    """Writes PREFIX.bin and PREFIX.idx; nothing if there is no item."""

    def __init__(self, prefix: Path, vocabulary: Vocabulary):
        self.files = [Path(f"{prefix}.{kind}") for kind in ("bin", "idx")]
        dtype = best_fitting_int_dtype(len(vocabulary.dictionary))
        self.builder = MMapIndexedDatasetBuilder(self.files[0], dtype)
        self.unk = vocabulary.dictionary.unk()
        self.items = self.tokens = self.longest = self.unknown = 0

    def add(self, tokens: np.ndarray) -> None:
        """Write an item, and count it."""
        self.builder.add_item(torch.from_numpy(tokens))
        self.items += 1
        self.tokens += len(tokens)
        self.longest = max(self.longest, len(tokens))
        self.unknown += int((tokens == self.unk).sum())

    def __enter__(self) -> "BinaryWriter":
        return self

    def __exit__(self, *_) -> None:
        self.builder.finalize(self.files[1])
        if not self.items:
            for file in self.files:
                file.unlink()
        elif not self.tokens:
            self.files[0].write_bytes(bytes(8))  # an empty file cannot be mapped to memory


class LanguageModelWriter(BinaryWriter):
    """Texts of at most `max_tokens` tokens, </s> included."""

    def __init__(self, prefix: Path, vocabulary: Vocabulary, max_tokens: int):
        super().__init__(prefix, vocabulary)
        self.end, self.max_tokens = vocabulary.dictionary.eos(), max_tokens
        self.cut = self.left_out = 0

    def add_text(self, tokens: np.ndarray) -> None:
        """Add a text; a longer one is split into several, of which only the last ends in </s>."""
        tokens = np.append(tokens, self.end)
        for start in range(0, len(tokens), self.max_tokens):
            self.add(tokens[start : start + self.max_tokens])

    def add_record(self, query: np.ndarray, prompt: np.ndarray, response: np.ndarray) -> None:
        """Add a record, its prompt cut at the front if need be; left out if that is not enough."""
        room = self.max_tokens - 1 - len(query) - len(response)
        if room < 0:
            self.left_out += 1
            return
        self.cut += len(prompt) > room
        kept = prompt[max(0, len(prompt) - room) :]
        self.add_text(np.concatenate([query, kept, response]))
