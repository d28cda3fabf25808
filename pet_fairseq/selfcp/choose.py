"""Questions with a closed set of answers: the response that a model expects most.

This is the closed-ended evaluation by perplexity of CoLA (SelfCP, section 4.5.3).
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from pet_fairseq.checkpoints.subsets import read_batches
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError
from pet_fairseq.files import check_folder_of, write_json
from pet_fairseq.selfcp.dataset import prompts_of
from pet_fairseq.selfcp.model import SelfCpModel
from pet_fairseq.selfcp.task import load_selfcp
from pet_fairseq.selfcp.template import read_template
from pet_fairseq.selfcp.vocabulary import open_vocabulary


class Choices(NamedTuple):
    """The chosen and the right candidate of each record, as indices of the candidates."""

    chosen: list[int]
    right: list[int]  # -1: the response is not among the candidates
    read: list[int]  # tokens and memory tokens that were read in place of each query and prompt

    @property
    def accuracy(self) -> float:
        """The share of right choices in percent."""
        pairs = list(zip(self.chosen, self.right))
        return 100 * sum(a == b for a, b in pairs) / len(pairs)


@torch.inference_mode()
def losses(
    model: SelfCpModel, prompts: Mapping[str, Any], candidates: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Mean loss of each candidate's tokens and </s>; the prompts are read once for all of them.

    Args:
        prompts: as for PromptReader.read. candidates: tokens without </s>.
    Returns:
        losses: B x candidates, in nats per token. read: B, tokens and memory tokens before them.
    Raises:
        UserError: the model has too few positions for the longest candidate and its </s>.
    """
    longest = max(len(candidate) for candidate in candidates)
    read = model.encoder(**prompts, more=longest + 1)
    end = read["tokens"][0].new_tensor([model.encoder.dictionary.eos()])
    by_candidate = []
    for candidate in candidates:
        target = torch.cat([candidate.to(end), end])
        previous = torch.cat([end, candidate.to(end)]).expand(len(read["tokens"][0]), -1)
        context = {name: list(tensors) for name, tensors in read.items()}  # the decoder moves them
        state: dict[str, dict[str, Optional[Tensor]]] = {}
        of_tokens = []
        for t in range(len(target)):
            logits, _ = model.decoder(previous[:, : t + 1], context, state)
            lprobs = logits[:, 0].float().log_softmax(dim=-1)
            of_tokens.append(-lprobs.index_select(1, target[t : t + 1]))
        by_candidate.append(torch.cat(of_tokens, dim=1).mean(dim=1))
    lengths = read["tokens"][0].ne(model.encoder.dictionary.pad()).sum(dim=1)
    return torch.stack(by_candidate, dim=1), lengths


def choose(
    path: str,
    data: str,
    candidates: list[str],
    subset: str = "test",
    sentences: int = sys.maxsize,
    max_tokens: int = 8000,
    device: str = "cpu",
    out: Optional[Path] = None,
    **overrides,
) -> dict:
    """Choose one of the candidates for each record of a subset.

    Args:
        candidates: texts. overrides: options of the model, such as prompt_strategy.
    Returns:
        the accuracy (percent), how often each candidate was chosen, and the mean number of tokens
        and memory tokens that were read in place of query and prompt.
    Raises:
        UserError: no such files, not a model of this kind, or fewer than two different candidates,
            or an empty one.
    """
    check_folder_of(out, "--out")
    device = check_device(device)
    model, task = load_selfcp(path, data, **overrides)
    model.to(device)
    tokens = encode(candidates, task)
    texts = [task.dictionary.string(text) for text in tokens]
    check_candidates(candidates, texts)
    choices = Choices([], [], [])
    for sample in read_batches(task, subset, sentences, max_tokens, device):
        found, read = losses(model, prompts_of(sample), tokens)
        choices.chosen.extend(found.argmin(dim=1).tolist())
        choices.read.extend(read.tolist())
        pad = task.dictionary.pad()
        given = [task.dictionary.string(target[target.ne(pad)]) for target in sample["target"]]
        choices.right.extend(texts.index(text) if text in texts else -1 for text in given)
    result = {
        "accuracy": choices.accuracy,
        "total": len(choices.right),
        "read": sum(choices.read) / len(choices.read),
        "chosen": {c: choices.chosen.count(i) for i, c in enumerate(candidates)},
        "not among the candidates": choices.right.count(-1),
    }
    if out is not None:
        write_json(out, result)
    return result


def check_candidates(candidates: list[str], tokens: list[str]) -> None:
    """Check that there are two or more candidates, not empty, and each of tokens of its own.

    Raises:
        UserError: there are not.
    """
    if not all(text.strip() for text in candidates):
        raise UserError("--candidates: one of them is empty, which no response is; leave it out")
    if len(set(candidates)) < max(2, len(candidates)):
        raise UserError(f"--candidates {','.join(candidates)}: give two or more different ones")
    same = [text for text, own in zip(candidates, tokens) if tokens.count(own) > 1]
    if same:
        raise UserError(
            f"--candidates {','.join(same)}: they are the same tokens for the tokenizer of the "
            "data's text; give ones that it tells apart"
        )


def encode(texts: list[str], task) -> list[Tensor]:
    """Tokenise texts as the responses of a data folder are, with what stands around each.

    Raises:
        UserError: the folder has neither a SentencePiece model nor a tokenizer.
    """
    folder = Path(task.cfg.data)
    vocabulary = open_vocabulary(folder)
    template = read_template(folder)
    return [torch.from_numpy(vocabulary.encode(template.answer(text))) for text in texts]
