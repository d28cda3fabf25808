#!/usr/bin/env python3
"""Ask a language model about a document that is longer than its window.

    python ask.py MEMORY DOCUMENT QUESTION [--ways concat truncate_equal full] [--window 512]

MEMORY is a checkpoint of --arch selfcp, DOCUMENT a text file. Each way to read the document answers
in a process of its own: what it read, the time until the first word and for each further one, the
peak memory of the process with the model, and the answer. `concat` reads memory tokens in the place
of all but the last tokens, which `--window` numbers.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.dataclass.configs import GenerationConfig

import pet_fairseq  # noqa: F401  (registers --arch selfcp)
from pet_fairseq.errors import TooLongError, UserError, message_of
from pet_fairseq.files import read_text
from pet_fairseq.markdown import table
from pet_fairseq.predict.text import build_text_of, find_subword_file, options_of_text
from pet_fairseq.selfcp.dataset import PromptDataset, Texts
from pet_fairseq.selfcp.prompts import Record
from pet_fairseq.selfcp.task import SelfCpTask, load_selfcp
from pet_fairseq.selfcp.template import Template, read_template
from pet_fairseq.selfcp.vocabulary import open_vocabulary

WAYS = ("concat", "truncate_equal", "full")
KILOBYTE, MEGABYTE = 1024, 1e6  # the system counts the peak in the former


class Answer(NamedTuple):
    """What a way to read the document gave.

    Attributes:
        read: tokens and memory tokens. first_word, each_word: seconds. peak: bytes.
    """

    text: str
    read: int
    first_word: float
    each_word: float
    peak: int


@torch.inference_mode()
def ask(args: argparse.Namespace, way: str) -> Answer:
    """Let the model read the document in one of the ways, and answer greedily."""
    changes = {name: getattr(args, name) for name in ("window", "segment_tokens", "memory_ratio")}
    model, task = load_selfcp(args.memory, args.data, prompt_strategy=way, **changes)
    sample = make_sample(task, args)
    start = time.perf_counter()
    read = model.encoder(**sample["net_input"])["tokens"][0].size(1)
    first_word = time.perf_counter() - start
    generator = task.build_generator(
        [model], GenerationConfig(beam=1, max_len_a=0, max_len_b=args.words)
    )
    start = time.perf_counter()
    [[best, *_]] = generator.generate([model], sample)
    after_reading = time.perf_counter() - start - first_word
    words = best["tokens"]
    peak = KILOBYTE * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Answer(spell(task, words), read, first_word, after_reading / len(words), peak)


def ask_in_own_process(args: argparse.Namespace, way: str) -> Answer:
    """As `ask`; the process's peak of memory is that of this way alone."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(ask, args, way).result()


def make_sample(task: SelfCpTask, args: argparse.Namespace) -> dict:
    """A batch of one prompt, tokenized as the data of the memory's training are."""
    folder = Path(task.cfg.data)
    vocabulary = open_vocabulary(folder)
    document = Record(args.question, read_text(args.document, "DOCUMENT"), "")
    query, prompt = (
        Texts([torch.from_numpy(vocabulary.encode(text))])
        for text in read_template(folder).around(document)[:2]
    )
    cue = task.cue
    if args.cue is not None:
        cue = torch.from_numpy(vocabulary.encode(Template(cue=args.cue).cue_alone()))
    dataset = PromptDataset(query, prompt, None, task.dictionary, cue=cue)
    return dataset.collater([dataset[0]])


def spell(task: SelfCpTask, tokens: torch.Tensor) -> str:
    """The text of an answer."""
    folder = Path(task.cfg.data)
    file = find_subword_file(task.dictionary, [folder], "--data", "give the data of the memory")
    text = build_text_of(*options_of_text({}, file))
    answer = text.decode(task.dictionary.string(tokens))
    return answer.removesuffix(read_template(folder).after).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("memory", metavar="MEMORY", help="a checkpoint of --arch selfcp")
    parser.add_argument("document", type=Path, metavar="DOCUMENT", help="a text file")
    parser.add_argument("question", metavar="QUESTION", help="read first, never compressed")
    parser.add_argument("--data", required=True, help="the folder that the memory was trained on")
    parser.add_argument("--cue", help="read behind the document; default: that of the data")
    parser.add_argument("--ways", nargs="+", default=WAYS, help="--prompt-strategy of each row")
    parser.add_argument("--window", type=int, default=512, help="tokens that are kept")
    parser.add_argument("--segment-tokens", type=int, default=0, help="default: the window")
    parser.add_argument("--memory-ratio", type=float, default=12.0)
    parser.add_argument("--words", type=int, default=40, help="the most tokens of an answer")
    args = parser.parse_args()
    rows = []
    for way in args.ways:
        try:
            answer = ask_in_own_process(args, way)
        except TooLongError as error:
            print(f"{way}: no answer: {error}", file=sys.stderr)
            continue
        print(f"{way}: {answer.text}", flush=True)
        seconds = (f"{answer.first_word:.2f}", f"{answer.each_word:.3f}")
        rows.append([way, f"{answer.read:,}", *seconds, f"{answer.peak / MEGABYTE:,.0f}"])
    if not rows:
        raise UserError(
            "--ways: none of them fits into the model's positions; give others, such as concat, or "
            "a smaller --window"
        )
    header = ["way", "read", "s to the first word", "s for each further word", "peak MB"]
    print(f"\n{table(header, rows)}", end="")


if __name__ == "__main__":
    try:
        main()
    except (UserError, OSError) as error:
        sys.exit(f"ask.py: error: {message_of(error)}")
