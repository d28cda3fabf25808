"""Queries, prompts and responses as batches."""

from typing import Optional

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from fairseq.data.dictionary import Dictionary
from torch import Tensor


class PromptDataset(FairseqDataset):
    """Reads three data sets of tokens without </s>.

    Args:
        response: None if there is none to compare with. ratios: the range from which a ratio is
            drawn for each prompt, and with it which side is compressed; None: left to the model.
    """

    def __init__(
        self,
        query,
        prompt,
        response,
        dictionary: Dictionary,
        ratios: Optional[tuple[float, float]] = None,
        seed: int = 1,
    ):
        self.parts = {"query": query, "prompt": prompt, "response": response}
        self.dictionary = dictionary
        self.ratios = ratios
        self.seed = seed
        self.epoch = 1
        self.source_sizes = 2 + np.asarray(query.sizes) + np.asarray(prompt.sizes)
        self.target_sizes = 0 if response is None else 1 + np.asarray(response.sizes)
        self.sizes = self.source_sizes + self.target_sizes

    def __len__(self) -> int:
        return len(self.parts["prompt"])

    def __getitem__(self, index: int) -> dict:
        item = {name: part[index] for name, part in self.parts.items() if part is not None}
        if self.ratios is not None:
            with data_utils.numpy_seed(self.seed, self.epoch, index):
                item["ratio"] = np.random.uniform(*self.ratios)
                item["latter"] = np.random.rand() < 0.5
        return {"id": index, **item}

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return True  # only the ratios change

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    def num_tokens_vec(self, indices) -> np.ndarray:
        return self.sizes[indices]

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Sort the indices by length, those of one length in a random order."""
        with data_utils.numpy_seed(self.seed, self.epoch):
            indices = np.random.permutation(len(self))
        return indices[np.argsort(self.sizes[indices], kind="mergesort")]

    def filter_indices_by_size(self, indices, max_sizes) -> tuple:
        """Keep all records: what is too long is compressed."""
        return indices, []

    def collater(self, samples: list[dict]) -> dict:
        """Build a batch for the model; see PromptReader.read and SelfCpModel.forward."""
        if not samples:
            return {}
        pad, end = self.dictionary.pad(), torch.tensor([self.dictionary.eos()])
        between = torch.tensor([self.dictionary.bos()])  # fairseq's language models do not use it

        def pad_right(tensors: list[Tensor]) -> Tensor:
            return data_utils.collate_tokens([t.long() for t in tensors], pad)

        sources = [torch.cat([end, s["query"], between, s["prompt"]]) for s in samples]
        net_input = {
            "src_tokens": pad_right(sources),
            "src_lengths": torch.tensor([len(source) for source in sources]),
        }
        batch = {
            "id": torch.tensor([s["id"] for s in samples]),
            "nsentences": len(samples),
            "ntokens": sum(map(len, sources)),
            "net_input": net_input,
            "target": None,
        }
        if "response" in samples[0]:
            targets = [torch.cat([s["response"], end]) for s in samples]
            previous = [torch.cat([end, s["response"]]) for s in samples]
            net_input["prev_output_tokens"] = pad_right(previous)
            batch |= {"target": pad_right(targets), "ntokens": sum(map(len, targets))}
        if self.ratios is not None:
            net_input["ratios"] = torch.tensor([s["ratio"] for s in samples])
            net_input["latter"] = torch.tensor([bool(s["latter"]) for s in samples])
        return batch


def split_at(tokens: Tensor, symbol: int) -> tuple[Tensor, Tensor]:
    """Return the tokens before and after the first such symbol."""
    first = int(tokens.eq(symbol).nonzero()[0])
    return tokens[:first], tokens[first + 1 :]
