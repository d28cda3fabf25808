"""Queries, prompts and responses as batches."""

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Optional

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from fairseq.data.dictionary import Dictionary
from torch import Tensor

from pet_fairseq.errors import UserError

logger = logging.getLogger(__name__)


class PromptDataset(FairseqDataset):
    """Reads three data sets of tokens without </s>.

    Args:
        response: None in inference. of_others: give each prompt another one beside it, whose
            segments are compressed in its place. cue: the tokens between each prompt and its
            response.
    Raises:
        UserError: of_others, and all prompts are the same.
    """

    def __init__(
        self,
        query,
        prompt,
        response,
        dictionary: Dictionary,
        seed: int = 1,
        of_others: bool = False,
        cue: Optional[Tensor] = None,
    ):
        self.parts = {"query": query, "prompt": prompt, "response": response}
        self.dictionary = dictionary
        self.seed = seed
        self.others = pair_with_others(prompt) if of_others else None
        self.cue = cue
        length = 0 if cue is None else len(cue)
        self.source_sizes = 2 + length + np.asarray(query.sizes) + np.asarray(prompt.sizes)
        self.target_sizes = 0 if response is None else 1 + np.asarray(response.sizes)
        self.sizes = np.asarray(self.source_sizes + self.target_sizes, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.parts["prompt"])

    def __getitem__(self, index: int) -> dict:
        item = {name: part[index] for name, part in self.parts.items() if part is not None}
        if self.others is not None:
            item["other"] = self.parts["prompt"][self.others[index]]
        return {"id": index, **item}

    def lengths(self) -> Iterator[tuple[int, int, int]]:
        """Of each record, the tokens of its query and the </s>, its prompt, and cue and response.

        The data set has responses.
        """
        query, prompt, response = (part.sizes for part in self.parts.values())
        cue = 0 if self.cue is None else len(self.cue)
        return zip(*(array.tolist() for array in (1 + query, prompt, cue + response)))

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    def num_tokens_vec(self, indices) -> np.ndarray:
        return self.sizes[indices]

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Sort the indices by length, those of one length in a random order.

        The order is the same in every epoch, so that resumed training has the same batches.
        """
        with data_utils.numpy_seed(self.seed, 1):
            indices = np.random.permutation(len(self))
        return indices[np.argsort(self.sizes[indices], kind="mergesort")]

    def filter_indices_by_size(self, indices, max_sizes) -> tuple:
        """Keep all records: what is too long is compressed."""
        return indices, []

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        required_batch_size_multiple: int = 1,
    ) -> list:
        """Divide the indices into batches; a record over `max_tokens` is a batch of its own."""
        sizes = self.sizes[indices]
        if max_tokens is not None and (sizes > max_tokens).any():
            logger.warning(
                f"--max-tokens {max_tokens}: {(sizes > max_tokens).sum():,} of {len(sizes):,} "
                f"records are longer, up to {sizes.max():,} tokens; each is a batch of its own"
            )
            sizes = np.minimum(sizes, max_tokens)
        return data_utils.batch_by_size(
            indices,
            self.num_tokens,
            num_tokens_vec=sizes,
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            required_batch_size_multiple=required_batch_size_multiple,
        )

    def collater(self, samples: list[dict]) -> dict:
        """Build a batch for the model; see PromptReader.read and SelfCpModel.forward."""
        if not samples:
            return {}
        pad, end = self.dictionary.pad(), torch.tensor([self.dictionary.eos()])
        between = torch.tensor([self.dictionary.bos()])

        def pad_right(tensors: list[Tensor]) -> Tensor:
            return data_utils.collate_tokens([t.long() for t in tensors], pad)

        sources = [torch.cat([end, s["query"], between, s["prompt"]]) for s in samples]
        net_input = {
            "src_tokens": pad_right(sources),
            "src_lengths": torch.tensor([len(source) for source in sources]),
            "query_lengths": torch.tensor([len(end) + len(s["query"]) for s in samples]),
        }
        if self.cue is not None:
            net_input["cue"] = self.cue
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
        if self.others is not None:
            others = [s["other"] for s in samples]
            net_input["others"] = pad_right(others)
            net_input["other_lengths"] = torch.tensor([len(other) for other in others])
        return batch


class Texts:
    """Texts in memory, as PromptDataset reads them."""

    def __init__(self, texts: list[Tensor]):
        self.texts = texts
        self.sizes = np.array([len(text) for text in texts])

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Tensor:
        return self.texts[index]


def prompts_of(sample: dict) -> dict:
    """The arguments of PromptReader.read in a batch, which may hold responses, too."""
    return {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}


def pair_with_others(prompts) -> np.ndarray:
    """For each prompt the number of another one with other tokens, of about the same length: [N].

    It is the next one in the order of lengths that differs or, if none follows, the nearest before.
    Those of one length are in a random order, always the same: neighbours in a file may be parts of
    one document.

    Raises:
        UserError: all prompts are the same.
    """
    sizes = np.asarray(prompts.sizes)
    order = np.random.RandomState(1).permutation(len(sizes))
    order = order[np.argsort(sizes[order], kind="stable")]
    others = np.zeros(len(order), dtype=np.int64)
    for place, number in enumerate(order):
        candidates = chain(order[place + 1 :], order[:place][::-1])
        mine = prompts[int(number)]
        other = next((o for o in candidates if differs(mine, prompts[int(o)])), None)
        if other is None:
            raise UserError("--segments-from other: all prompts are the same; give different ones")
        others[number] = other
    return others


def differs(mine: Tensor, other: Tensor) -> bool:
    """Whether the other prompt has tokens, and not the same ones."""
    return len(other) > 0 and not torch.equal(mine, other)
