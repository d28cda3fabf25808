"""How fast a language model reads prompts, and how well it predicts the responses to them."""

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from omegaconf import open_dict
from torch import Tensor, nn

from pet_fairseq.checkpoints.backbone import check_gives_logits
from pet_fairseq.checkpoints.loading import build_from_state
from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from pet_fairseq.checkpoints.subsets import even_steps, load_subset
from pet_fairseq.devices import check_device
from pet_fairseq.errors import UserError, check_positive

REPEATS = 3  # of each timed reading; the fastest counts
MOST_ANSWERS = 100  # to choose from; each is read after each prompt


class Text(NamedTuple):
    """A prompt and its response, as indices of words."""

    prompt: Tensor  # P, from the </s> with which fairseq begins every text
    response: Tensor  # R, up to and including its </s>


@torch.inference_mode()
def prompt_scores(
    checkpoint: str,
    data: str,
    prompt_end: str,
    subset: str = "test",
    texts: int = 100,
    cut: int = 1,
    closed_answers: bool = False,
    device: str = "auto",
) -> dict:
    """Measure how well a model predicts responses, and how long it takes to read their prompts.

    Args:
        checkpoint: a language model, which may have plugins.
        prompt_end: the word after which the response begins.
        texts: how many at most, spread over the subset.
        cut: the model reads only the last 1/cut of each prompt.
        closed_answers: the responses of the subset are the answers to choose from.
        device: cpu, cuda, or auto, which uses CUDA if torch finds a GPU.
    Returns:
        perplexity, of a word of the responses; exact_match, the percentage of responses whose words
        are all the most probable ones; prompt_ms, the mean time in milliseconds in which all layers
        read a single prompt; prompt_length, the mean number of tokens in a prompt before it is cut;
        texts; cut; with closed_answers also accuracy, the percentage of prompts after which the
        right answer has the lowest loss per word.
    Raises:
        UserError: no language model, or one with an adaptive softmax; no such subset, word or
            device; no prompts; or too few or too many answers to choose from.
    """
    check_positive(texts=texts, cut=cut)
    device = check_device(device)
    model, task = load_for_lines(checkpoint, data)
    check_gives_logits(model, f"CHECKPOINT {checkpoint}")
    model.to(device)
    loss = seconds = 0.0
    words = right = length = chosen = 0
    found = list(read_texts(task, subset, prompt_end, texts, model.max_positions()))
    if not found:
        raise UserError(
            f"--prompt-end {prompt_end!r}: in no text of {subset} that the model has room for"
        )
    answers = [answer.to(device) for answer in all_answers(found)] if closed_answers else []
    for number, text in enumerate(found):
        response, prompt = text.response.to(device), cut_prompt(text.prompt, cut).to(device)
        if number == 0:
            model(prompt[None], features_only=True)  # the first run is slower
        seconds += reading_time(model, prompt)
        nats, is_right = read_response(model, prompt, response)
        loss, right, words = loss + nats, right + is_right, words + len(response)
        length += len(text.prompt)
        if closed_answers:
            chosen += torch.equal(choose_answer(model, prompt, answers), response)
    count = len(found)
    accuracy = {"accuracy": 100 * chosen / count} if closed_answers else {}
    return {
        **accuracy,
        "perplexity": math.exp(loss / words),
        "exact_match": 100 * right / count,
        "prompt_ms": 1000 * seconds / count,
        "prompt_length": round(length / count, 1),
        "texts": count,
        "cut": cut,
    }


def load_for_lines(checkpoint: str, data: str) -> tuple[nn.Module, object]:
    """Load a language model and its task, for which every line of the data is a text of its own.

    Raises:
        UserError: another kind of model, no such data, or data with another dictionary.
    """
    state = load_checkpoint(checkpoint, "CHECKPOINT")
    if state["cfg"].task._name != "language_modeling":
        raise UserError(f"CHECKPOINT {checkpoint}: not a language model; give a decoder-only one")
    with open_dict(state["cfg"]):
        state["cfg"].task.sample_break_mode = "eos"
        state["cfg"].task.add_bos_token = False  # it would stand before the </s> that is there
    return build_from_state(state, [checkpoint], "CHECKPOINT", data)


def read_texts(task, subset: str, prompt_end: str, number: int, max_length: int) -> Iterator[Text]:
    """Yield texts from all over a subset, in even steps; not those too long or without a prompt.

    Args:
        number: how many texts to read; fewer are yielded if some are left out.
        max_length: tokens, without the last one.
    Raises:
        UserError: no such subset or word.
    """
    end = task.source_dictionary.index(prompt_end)
    if end == task.source_dictionary.unk():
        raise UserError(
            f"--prompt-end {prompt_end!r}: not in the dictionary; give the word that ends the "
            "prompts in the data"
        )
    dataset = load_subset(task, subset)
    for i in even_steps(len(dataset), number):
        item = dataset[i]
        tokens = torch.cat([item["source"], item["target"][-1:]])
        ends = tokens.eq(end).nonzero()
        if len(ends) and len(tokens) - 1 <= max_length:
            yield Text(*tokens.tensor_split([int(ends[0]) + 1]))


def all_answers(texts: list[Text]) -> list[Tensor]:
    """The different responses, in the order of their first text.

    Raises:
        UserError: only one, or more than MOST_ANSWERS.
    """
    answers = {tuple(text.response.tolist()): text.response for text in texts}
    if not 1 < len(answers) <= MOST_ANSWERS:
        raise UserError(
            f"--closed-answers: the texts have {len(answers)} different responses; choosing needs "
            f"2 to {MOST_ANSWERS}, so give other data or leave the option out"
        )
    return list(answers.values())


def choose_answer(model: nn.Module, prompt: Tensor, answers: list[Tensor]) -> Tensor:
    """The answer with the lowest loss per word, as in SelfCP's closed-ended evaluation."""
    return min(answers, key=lambda answer: read_response(model, prompt, answer)[0] / len(answer))


def cut_prompt(prompt: Tensor, cut: int) -> Tensor:
    """The first word, and the last 1/cut of the others, rounded up."""
    rest = prompt[1:]
    return torch.cat([prompt[:1], rest[len(rest) - -(-len(rest) // cut) :]])


def read_response(model: nn.Module, prompt: Tensor, response: Tensor) -> tuple[float, bool]:
    """A response's loss in nats, summed over its words, and whether all are the most probable."""
    tokens = torch.cat([prompt, response])[None, :-1]
    logits = model(tokens)[0][0, len(prompt) - 1 :].float()
    loss = nn.functional.cross_entropy(logits, response, reduction="sum")
    return float(loss), bool(logits.argmax(dim=-1).eq(response).all())


def reading_time(model: nn.Module, prompt: Tensor) -> float:
    """The seconds in which the layers read a prompt, the fewest of REPEATS runs."""

    def read() -> float:
        start = time.perf_counter()
        features, _ = model(prompt[None], features_only=True)
        features[0, -1, 0].item()  # waits for the device
        return time.perf_counter() - start

    return min(read() for _ in range(REPEATS))
