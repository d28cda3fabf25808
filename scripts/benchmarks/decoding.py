#!/usr/bin/env python3
"""Speed of translation: fairseq's generator, the fast one, CTranslate2 in float32 and int8.

Random weights, sources of one length, translations forced to one length, so that every engine does
the same work; or NAME=CHECKPOINT and its test set, as long as its translations are. Each model and
engine has a process of its own, which waits while another is measured; the engines take turns, the
first round warms up, the median of the others counts. Beside the speed: the share of what the
arithmetic allows (the FLOPs of the needed matrix products over the rate of a large product), and
the peak of memory: of the process, libraries included, or of torch's allocator on a GPU.
CTranslate2 computes in --dtype, or with weights in int8; an engine that does not start is left out
and named below the table.

    python scripts/benchmarks/decoding.py --out FOLDER [--models teacher pet d256] [--rounds 5]
    python scripts/benchmarks/decoding.py --out FOLDER --models NAME=FILE --data BIN
"""

import importlib.util
import itertools
import logging
import multiprocessing
import statistics
import tempfile
from argparse import Namespace
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from harness import (
    Parser,
    Report,
    median_ratio,
    peak,
    seconds,
    start_peak,
    take_turns,
    timed,
)
from torch import nn

import pet_fairseq
from pet_fairseq.decoding.beams import top
from pet_fairseq.files import check_folder, write_figure, write_json
from pet_fairseq.number_format import format_ratio, format_speed

LENGTH = 15  # words of a source and of a translation
MODELS: dict[str, dict[str, Any]] = {
    "teacher": {"arch": "transformer_iwslt_de_en"},
    "pet": {"arch": "pet_transformer_iwslt_de_en"},
    "d256": {
        "arch": "transformer",
        "share_all_embeddings": True,
        **{f"{stack}_layers": 4 for stack in ("encoder", "decoder")},
        **{f"{stack}_embed_dim": 256 for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_embed_dim": 768 for stack in ("encoder", "decoder")},
        **{f"{stack}_attention_heads": 4 for stack in ("encoder", "decoder")},
    },
}
CTRANSLATE2 = ("ctranslate2", "ctranslate2 int8")
SHARED = ", shared"  # after an engine of CTranslate2: every thread translates a share of the batch
GENERATOR = "pet_fairseq.decoding.generator"
# the fast generator without one of its parts: the replacement of what is patched, by its name
WITHOUT: dict[str, dict[str, Any]] = {
    "own decoder": {f"{GENERATOR}.is_plain": lambda model: False},
    "one block": {f"{GENERATOR}.BLOCK_NUMBERS": 10**12},
    "plain topk": {"pet_fairseq.decoding.beams.top_by_groups": top},
    "dropped at once": {f"{GENERATOR}.DROPPED_SHARE": 0},
    "never dropped": {f"{GENERATOR}.DROPPED_SHARE": 2},
    "no inference mode": {"torch.inference_mode": torch.no_grad},
}
SIZES = {
    **{"--beams": [1, 5], "--words": 10000, "--rounds": 5, "--threads": torch.get_num_threads()},
    "--batch-sizes": [1, 32, 128, 4000 // (LENGTH + 1)],  # the last: a batch of 4,000 tokens
    "--sentences-of-small": 16,  # the fewest to translate where batches are small
    "--product": 2048,  # width of the matrices whose product is the bound
}
TINY = {
    **{"--models": ["pet"], "--words": 300, "--batch-sizes": [1, 3], "--sentences-of-small": 2},
    **{"--rounds": 1, "--product": 64},
}
COLUMNS = {
    **{"model": "", "beam": "d", "batch": "d", "engine": ""},
    **{"sentences/s": format_speed, "tokens/s": format_speed, "over the first": format_ratio},
    **{"of the bound": ".0%", "peak MB": ".0f"},
}
ENGINES = ("fairseq", "fast", *CTRANSLATE2, *(e + SHARED for e in CTRANSLATE2), *WITHOUT)


class Subject:
    """A model to measure: random weights and sources, or a checkpoint and its test set.

    `sources` are lists of word numbers without end-of-sentence; `forced` is the length of all
    translations, None if they end by themselves.
    """

    def __init__(self, name, options):
        from fairseq.models import ARCH_CONFIG_REGISTRY, build_model

        from pet_fairseq.checkpoints.loading import load_transformer
        from pet_fairseq.checkpoints.safe_loading import load_checkpoint
        from pet_fairseq.nn.architectures import Vocabularies

        self.name, _, path = name.partition("=")
        if path:
            self.args = load_checkpoint(path, "--models")["cfg"]["model"]
            self.model, self.task = load_transformer(path, "--models", options.data)
            self.task.load_dataset("test")
            self.forced = None
            self.sources = sorted(
                (tokens[:-1].tolist() for tokens in self.task.dataset("test").src), key=len
            )
        else:
            self.args = Namespace(**MODELS[self.name])
            ARCH_CONFIG_REGISTRY[self.args.arch](self.args)
            self.args._name = self.args.arch
            torch.manual_seed(1)
            self.task = Vocabularies(options.words, options.words)
            self.model = build_model(self.args, self.task)
            self.forced = LENGTH
            self.sources = torch.randint(4, options.words, (1000, LENGTH)).tolist()
        self.model.eval()
        self.words = self.task.target_dictionary

    def batches(self, size, least):
        """Neighbours, from all over the sources: at least one batch and `least` sentences."""
        count = max(1, -(-least // size))
        starts = [(len(self.sources) - size) * (2 * i + 1) // (2 * count) for i in range(count)]
        return [self.sources[start : start + size] for start in starts]


# --- engines: each translates a list of sources, word numbers without end-of-sentence -------------


def torch_engine(engine, subject, options):
    from fairseq.sequence_generator import SequenceGenerator

    from pet_fairseq.decoding.generator import FastGenerator

    model, words = subject.model, subject.words
    model.make_generation_fast_(need_attn=False)
    model.to(device=options.device, dtype=getattr(torch, options.dtype))
    kind = SequenceGenerator if engine == "fairseq" else FastGenerator
    length = {"max_len_b": subject.forced, "min_len": subject.forced} if subject.forced else {}

    @cache
    def generator_of(beam):
        return kind([model], words, beam_size=beam, **length)

    def translate(sources, beam):
        tokens = torch.full((len(sources), max(map(len, sources)) + 1), words.pad())
        for row, source in zip(tokens, sources):
            row[-len(source) - 1 :] = torch.tensor([*source, words.eos()])
        lengths = torch.tensor([len(source) + 1 for source in sources])
        net_input = {"src_tokens": tokens, "src_lengths": lengths}
        net_input = {key: value.to(options.device) for key, value in net_input.items()}
        finished = generator_of(beam).generate([model], {"net_input": net_input})
        return sum(len(hypotheses[0]["tokens"]) - 1 for hypotheses in finished)

    return translate


def ctranslate2_engine(engine, subject, options):
    import ctranslate2
    from ctranslate2.converters import FairseqConverter

    from pet_fairseq.export.fairseq import plain_model

    plain, args = plain_model(subject.model, subject.args, subject.task)
    source_words = subject.task.source_dictionary
    with tempfile.TemporaryDirectory() as folder:
        source_words.save(f"{folder}/dict.de.txt")
        subject.words.save(f"{folder}/dict.en.txt")
        state = {"args": None, "cfg": {"model": args}, "model": plain.state_dict()}
        torch.save(state, f"{folder}/model.pt")
        converter = FairseqConverter(f"{folder}/model.pt", folder, "de", "en")
        converter.convert(f"{folder}/out", quantization=quantization(engine, options.dtype))
        shares = options.threads if engine.endswith(SHARED) else 1
        translator = ctranslate2.Translator(
            f"{folder}/out",
            options.device,
            inter_threads=shares,
            intra_threads=options.threads // shares,
        )
    length = {"max_decoding_length": subject.forced or 200}
    length["min_decoding_length"] = subject.forced or 1

    def translate(sources, beam):
        words = [[source_words[number] for number in source] for source in sources]
        share = -(-len(words) // shares)
        translations = translator.translate_batch(
            words, beam_size=beam, max_batch_size=share, **length
        )
        return sum(len(one.hypotheses[0]) for one in translations)

    return translate


def quantization(engine, dtype):
    """The type of CTranslate2's weights and, if they are int8, of its arithmetic around them."""
    if "int8" not in engine:
        return dtype
    return "int8" if dtype == "float32" else f"int8_{dtype}"


def work(connection, engine, name, options):
    """Runs in a process of its own: builds an engine, then times what is asked for."""
    pet_fairseq.register()
    torch.set_num_threads(options.threads)
    with ExitStack() as patches:
        for target, replacement in WITHOUT.get(engine, {}).items():
            patches.enter_context(mock.patch(target, replacement))
        in_torch = not engine.startswith("ctranslate2")
        build = torch_engine if in_torch else ctranslate2_engine
        try:
            translate = build(engine, Subject(name, options), options)
            translate([[4]], 1)
        except Exception as error:  # of any library: the other engines are measured without it
            connection.send(f"{type(error).__name__}: {error}".splitlines()[0])
            return
        connection.send("ready")
        device = options.device if in_torch else "cpu"
        while (asked := connection.recv()) is not None:
            beam, batches = asked
            start_peak(device)
            taken, tokens = timed(device, translate_all, translate, batches, beam)
            connection.send((taken, peak(device) / 2**20, tokens))


def translate_all(translate, batches, beam):
    """The tokens of all translations."""
    return sum(translate(batch, beam) for batch in batches)


# --- the arithmetic -------------------------------------------------------------------------------


def needed_flops(model, beam):
    """FLOPs of the matrix products for one sentence; the first step has one row, not `beam`."""
    source, steps = LENGTH + 1, LENGTH + 1
    rows = 1 + (steps - 1) * beam
    encoder, decoder = model.encoder.layers, model.decoder.layers
    total = source * sum(map(size, encoder))
    cross = [layer.encoder_attn for layer in decoder]
    of_source = sum(size(a.k_proj) + size(a.v_proj) for a in cross)
    total += source * of_source + rows * (sum(map(size, decoder)) - of_source)
    total += rows * model.decoder.output_projection.weight.numel()
    total += len(encoder) * 2 * source**2 * width(encoder[0].self_attn)
    seen = 1 + beam * sum(range(2, steps + 1))  # keys over all steps and rows
    total += sum(2 * seen * width(layer.self_attn) for layer in decoder)
    total += sum(2 * rows * source * width(a) for a in cross)
    return 2 * total


def size(module):
    """Multiplications of a module's linear layers for one position."""
    linears = (m for _, m in module.named_modules(remove_duplicate=False))
    return sum(m.weight.numel() for m in linears if isinstance(m, nn.Linear))


def width(attention):
    return attention.num_heads * attention.head_dim


def product_rate(options):
    """FLOPs a second of a large float product: the best of several."""
    width = options.product
    a, b = (
        torch.randn(width, width, device=options.device, dtype=getattr(torch, options.dtype))
        for _ in range(2)
    )
    best = min(seconds(options.device, torch.matmul, a, b) for _ in range(20))
    return 2 * width**3 / best


# --- measuring ------------------------------------------------------------------------------------


def measure(name, options):
    """Rows of one model: beams x batch sizes x engines; and why engines are left out."""
    context = multiprocessing.get_context("spawn")
    subject = Subject(name, options)
    workers = {}
    for engine in options.engines:
        workers[engine], there = context.Pipe()
        context.Process(target=work, args=(there, engine, name, options), daemon=True).start()
        there.close()  # so that the end of that process is noticed
    states = {engine: state_of(worker) for engine, worker in workers.items()}
    failures = {engine: state for engine, state in states.items() if state != "ready"}
    for engine in failures:
        del workers[engine]
    rows = []
    for beam, size in itertools.product(options.beams, options.batch_sizes):
        batches = subject.batches(size, options.sentences_of_small)
        flops = needed_flops(subject.model, beam) if subject.forced else None
        bound = product_rate(options) / flops if flops else None
        ways = {engine: partial(ask, workers[engine], (beam, batches)) for engine in workers}
        timings = take_turns(ways, options.rounds)
        about = {"model": subject.name, "beam": beam, "batch": size}
        rows += make_rows(about, timings, sum(map(len, batches)), bound, options.device)
    for worker in workers.values():
        worker.send(None)
    return rows, failures


def state_of(worker):
    """`ready`, or why an engine did not start."""
    try:
        return worker.recv()
    except EOFError:
        return "its process has ended"


def ask(worker, asked):
    """Seconds, peak megabytes and tokens of one engine."""
    worker.send(asked)
    return worker.recv()


def make_rows(about, timings, sentences, bound, device):
    """A row for each engine; timings: what `ask` gave by round; bound: sentences/s, or None."""
    first = [taken for taken, _, _ in next(iter(timings.values()))] if timings else []
    rows = []
    for engine, rounds in timings.items():
        times, peaks, tokens = zip(*rounds)
        median = statistics.median(times)
        unseen = device == "cuda" and engine.startswith("ctranslate2")
        rows.append(
            {
                **about,
                "engine": engine,
                "sentences_per_second": sentences / median,
                "tokens_per_second": tokens[0] / median,
                "over_first": median_ratio(first, times),
                "share_of_bound": sentences / median / bound if bound else None,
                "peak_megabytes": None if unseen else max(peaks),
            }
        )
    return rows


def plot(rows, path):
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(row["model"] for row in rows))
    beams = sorted({row["beam"] for row in rows})
    figure = Figure((3 * len(models) + 2, 2.8 * len(beams)), layout="constrained")
    axes = figure.subplots(len(beams), len(models), squeeze=False)
    for axis, (beam, model) in zip(axes.flat, itertools.product(beams, models)):
        mine = [row for row in rows if (row["model"], row["beam"]) == (model, beam)]
        for engine in dict.fromkeys(row["engine"] for row in mine):
            points = [row for row in mine if row["engine"] == engine]
            axis.plot(
                [str(row["batch"]) for row in points],
                [row["sentences_per_second"] for row in points],
                marker="o",
                label=engine,
            )
        axis.set(title=f"{model}, beam {beam}", ylim=(0, None))
    for axis in axes[-1]:
        axis.set_xlabel("sentences in a batch")
    for axis in axes[:, 0]:
        axis.set_ylabel("sentences/s")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
    write_figure(path, figure)


def main():
    parser = Parser(__doc__, SIZES, TINY, ("--device", "--dtype"))
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), help=f"of {', '.join(MODELS)}, or NAME=FILE"
    )
    parser.add_argument("--data", metavar="BIN", help="for models from files")
    parser.add_argument(
        "--engines", nargs="+", default=["fairseq", "fast", *CTRANSLATE2], choices=ENGINES
    )
    options = parser.parse_args()
    if not options.data and any("=" in name for name in options.models):
        parser.error("--models NAME=FILE: give with --data the folder of its test set")
    pet_fairseq.register()
    check_folder(options.out, "--out")
    report = Report(f"{options.dtype}, {options.device}", options.device)
    report.begin_table(COLUMNS)
    rows, failures = [], {}
    for name in options.models:
        new, without = measure(name, options)
        rows, failures = [*rows, *new], failures | without
        for row in new:
            report.add_row(*row.values())
        report.write(options.out / "decoding.md")
        write_json(options.out / "decoding.json", rows)
        if importlib.util.find_spec("matplotlib"):
            plot(rows, options.out / "decoding.png")
    for engine, why in failures.items():
        report.say(f"\n{engine}: left out, {why}")
    report.write(options.out / "decoding.md")


if __name__ == "__main__":
    main()
