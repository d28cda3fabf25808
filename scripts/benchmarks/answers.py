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
from pathlib import Path

from http_load import read_requests
from measuring import Lines, add_out_option, processor_seconds
from serve_accuracy import BASE, Spec, default_models, read_spec

from pet_fairseq.cli import parse
from pet_fairseq.errors import install_excepthook
from pet_fairseq.markdown import table
from pet_fairseq.predict.batches import batches_by_length, batches_in_order
from pet_fairseq.results.score.task_table import read_run
from pet_fairseq.serve.served import load_predictor


class Answering:
    """A loaded model and the batches that it answers."""

    def __init__(self, spec: Spec, texts: list, args: argparse.Namespace, options: list[str]):
        words = [*map(str, spec.options), "--max-batch-tokens", str(args.batch_tokens), *options]
        _, serving = parse(["serve", *words])
        self.spec, self.ratio = spec, serving.ratio
        self.model = load_predictor(serving, serving.rest)
        tokens = [self.model.encode(text).tokens for text in texts]
        lengths = [len(some) for some in tokens]
        if serving.batch_order == "length":
            batches = batches_by_length(lengths, args.batch_tokens)
        else:
            batches = batches_in_order(range(len(tokens)), lengths, args.batch_tokens)
        self.batches = [[tokens[i] for i in batch] for batch in batches]
        self.taken: list[float] = []

    @property
    def padded(self) -> int:
        """Tokens of all batches with their padding."""
        return sum(len(batch) * max(map(len, batch)) for batch in self.batches)

    def answer_all(self) -> None:
        for batch in self.batches:
            self.model.answer(batch, self.ratio)

    def run_round(self) -> None:
        self.taken.append(processor_seconds(self.answer_all))


def cells(model: Answering, base: Answering, number: int) -> list[str]:
    """A row for a model; number: of texts. Ratios are taken within each round."""
    ratios = [ours / theirs for ours, theirs in zip(model.taken[1:], base.taken[1:])]
    milliseconds = 1000 * statistics.median(model.taken[1:]) / number
    real = sum(len(tokens) for batch in model.batches for tokens in batch)
    return [
        *(model.spec.run, " ".join(model.spec.helps) or "-", f"{milliseconds:.2f}"),
        *(f"{ratio:.2f}" for ratio in (statistics.median(ratios), min(ratios), max(ratios))),
        f"{100 * (1 - real / model.padded):.0f}",
    ]


def main() -> None:
    install_excepthook()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("runs", type=Path, metavar="RUNS")
    parser.add_argument("--texts", type=Path, required=True, help="texts, one a line")
    parser.add_argument("--pairs", type=Path, help="the second sentences of pairs, one a line")
    parser.add_argument("--models", nargs="+", help="RUN[+int8|+bf16][+length] (default: all runs)")
    parser.add_argument("--most", type=int, default=256, help="the most texts to answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    add_out_option(parser)
    args, options = parser.parse_known_args()
    runs = read_run(args.runs).rows
    requests = read_requests(args.texts, pairs=args.pairs)[: args.most]
    texts = [tuple(request.fields.values()) for request in requests]
    names = args.models or default_models(runs)
    specs = [read_spec(name, args.runs, runs) for name in names]
    models = [Answering(spec, texts, args, options) for spec in specs]
    for number in range(args.rounds + 1):  # the first one warms up
        for model in models if number % 2 else models[::-1]:
            model.run_round()
    base = next((model for model in models if model.spec.name == BASE), models[0])
    say = Lines(args.out)
    say(f"{len(texts)} texts, batches of {args.batch_tokens} tokens, {args.rounds} rounds\n")
    header = ["model", "with", "processor ms", f"of {base.spec.name}'s", "lowest", "highest"]
    rows = [cells(model, base, len(texts)) for model in models]
    say(table([*header, "padding %"], rows, text=(0, 1)))
    say.write()


if __name__ == "__main__":
    main()
