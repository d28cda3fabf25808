#!/usr/bin/env python3
"""Processor time of answers: a recipe's finished models in one process, without HTTP and tokenizer.

    OMP_NUM_THREADS=1 python scripts/benchmarks/answers.py RUNS --texts FILE \\
        [--models backbone backbone+int8 k4+int8+length ...] [OPTIONS OF pet-fairseq serve]

Models as for serve_accuracy.py beside it. All answer the same texts in batches of the same size, in
turn: in the order of the file, or with `+length` in batches of similar lengths. Other programs on
the machine disturb processor time less than time on the clock.
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

from harness import Parser, processor_seconds, report, take_turns
from http_load import read_requests
from serve_accuracy import BASE, Spec, read_specs

from pet_fairseq.cli import parse
from pet_fairseq.errors import install_excepthook
from pet_fairseq.number_format import format_ratio
from pet_fairseq.predict.batches import batches_by_length, batches_in_order
from pet_fairseq.serve.served_model import load_predictor

SIZES = {"--most": 256, "--rounds": 5, "--batch-tokens": 1024}
TINY = {"--rounds": 1, "--batch-tokens": 40}


class Answering:
    """A loaded model and the batches that it answers."""

    def __init__(self, spec: Spec, texts: list, args: argparse.Namespace, options: list[str]):
        words = [*map(str, spec.options), "--max-batch-tokens", str(args.batch_tokens), *options]
        _, serving = parse(["serve", *words])
        self.ratio = serving.ratio
        self.model = load_predictor(serving, serving.rest)
        tokens = [self.model.encode(text).tokens for text in texts]
        lengths = [len(some) for some in tokens]
        if serving.batch_order == "length":
            batches = batches_by_length(lengths, args.batch_tokens)
        else:
            batches = batches_in_order(range(len(tokens)), lengths, args.batch_tokens)
        self.batches = [[tokens[i] for i in batch] for batch in batches]

    @property
    def padding(self) -> float:
        """The percentage of padding among the tokens of all batches."""
        padded = sum(len(batch) * max(map(len, batch)) for batch in self.batches)
        real = sum(len(tokens) for batch in self.batches for tokens in batch)
        return 100 * (1 - real / padded)

    def answer_all(self) -> None:
        for batch in self.batches:
            self.model.answer(batch, self.ratio)


def columns(base: str) -> dict:
    """Of the table; the ratios are to a model."""
    ratios = dict.fromkeys((f"of {base}'s", "lowest", "highest"), format_ratio)
    return {"model": "", "with": "", "processor ms": ".2f", **ratios, "padding %": ".0f"}


def main() -> None:
    install_excepthook()
    parser = Parser(__doc__, SIZES, TINY, ("--out", "--csv"))
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("--texts", type=Path, required=True, help="texts, one a line")
    parser.add_argument("--pairs", type=Path, help="the second sentences of pairs, one a line")
    parser.add_argument("--models", nargs="+", help="RUN[+int8|+bf16][+length] (default: all runs)")
    args, options = parser.parse_known_args()
    requests = read_requests(args.texts, pairs=args.pairs)[: args.most]
    texts = [tuple(request.fields.values()) for request in requests]
    specs = read_specs(args.runs, args.models)
    models = {spec.name: Answering(spec, texts, args, options) for spec in specs}
    ways = {name: partial(processor_seconds, model.answer_all) for name, model in models.items()}
    times = take_turns(ways, args.rounds)
    base = BASE if BASE in models else specs[0].name
    about = f"{len(texts)} texts, batches of {args.batch_tokens} tokens, {args.rounds} rounds"
    with report(args, about, columns(base)) as result:
        for name, taken in times.items():
            run, *helps = name.split("+")
            ratios = [ours / theirs for ours, theirs in zip(taken, times[base])]
            shown = (statistics.median(ratios), min(ratios), max(ratios))
            milliseconds = 1000 * statistics.median(taken) / len(texts)
            result.add_row(run, " ".join(helps) or "-", milliseconds, *shown, models[name].padding)


if __name__ == "__main__":
    main()
