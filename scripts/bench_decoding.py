#!/usr/bin/env python3
"""Speed of translation: fairseq's generator, the fast one, CTranslate2 in float32 and int8.

Random weights, sources of one length, translations forced to one length, so that every engine does
the same work. Each model and engine has a process of its own, which waits while another is
measured; the engines take turns, the first round warms up, the median of the others counts. Beside
the speed: the share of what the arithmetic allows (the FLOPs of the needed matrix products over
the rate of a large product), and the peak of memory.

    python scripts/bench_decoding.py --out FOLDER [--models teacher pet d256] [--rounds 5]
    python scripts/bench_decoding.py --out FOLDER --models d256 --engines fast fairseq "own decoder"
"""

import argparse
import json
import logging
import multiprocessing
import statistics
import tempfile
import time
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import torch
from torch import nn

LENGTH = 15  # words of a source and of a translation
MODELS = {
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
CTRANSLATE2 = {"ctranslate2": "float32", "ctranslate2 int8": "int8"}
GENERATOR = "pet_fairseq.decoding.generator"
# the fast generator without one of its parts: what to put in the place of what
WITHOUT = {
    "own decoder": {f"{GENERATOR}.is_plain": lambda model: False},
    "one block": {f"{GENERATOR}.BLOCK_NUMBERS": float("inf")},
    "plain topk": {"pet_fairseq.decoding.beams.top": torch.topk},
}
ENGINES = ("fairseq", "fast", *CTRANSLATE2, *WITHOUT)


def make_model(name, words):
    from fairseq.models import ARCH_CONFIG_REGISTRY, build_model

    from pet_fairseq.pet.compression import Vocabularies

    args = Namespace(**MODELS[name])
    ARCH_CONFIG_REGISTRY[args.arch](args)
    args._name = args.arch
    torch.manual_seed(1)
    vocabularies = Vocabularies(words, words)
    return build_model(args, vocabularies).eval(), args, vocabularies


# --- engines: each translates a list of sources, word numbers without end-of-sentence -------------


def torch_engine(engine, name, options):
    from fairseq.sequence_generator import SequenceGenerator

    from pet_fairseq.decoding.generator import FastGenerator

    model, _, vocabularies = make_model(name, options.words)
    model.make_generation_fast_(need_attn=False)
    model.to(device=options.device, dtype=getattr(torch, options.dtype))
    kind = SequenceGenerator if engine == "fairseq" else FastGenerator
    dictionary = vocabularies.target_dictionary

    def translate(sources, beam):
        generator = kind([model], dictionary, beam_size=beam, max_len_b=LENGTH, min_len=LENGTH)
        tokens = torch.tensor([[*source, dictionary.eos()] for source in sources])
        lengths = torch.full((len(sources),), LENGTH + 1)
        net_input = {"src_tokens": tokens, "src_lengths": lengths}
        net_input = {key: value.to(options.device) for key, value in net_input.items()}
        found = generator.generate([model], {"net_input": net_input})
        assert all(len(hypotheses[0]["tokens"]) == LENGTH + 1 for hypotheses in found)

    return translate


def ctranslate2_engine(engine, name, options):
    import ctranslate2
    from ctranslate2.converters import FairseqConverter

    from pet_fairseq.decoding.plain import plain_model

    model, args, vocabularies = make_model(name, options.words)
    plain, args = plain_model(model, args, vocabularies)
    dictionary = vocabularies.target_dictionary
    with tempfile.TemporaryDirectory() as folder:
        for language in ("de", "en"):
            dictionary.save(f"{folder}/dict.{language}.txt")
        state = {"args": None, "cfg": {"model": args}, "model": plain.state_dict()}
        torch.save(state, f"{folder}/model.pt")
        converter = FairseqConverter(f"{folder}/model.pt", folder, "de", "en")
        converter.convert(f"{folder}/out", quantization=CTRANSLATE2[engine])
        threads = torch.get_num_threads()
        translator = ctranslate2.Translator(f"{folder}/out", options.device, intra_threads=threads)

    def translate(sources, beam):
        words = [[dictionary[number] for number in source] for source in sources]
        length = {"max_decoding_length": LENGTH, "min_decoding_length": LENGTH}
        found = translator.translate_batch(words, beam_size=beam, max_batch_size=0, **length)
        assert all(len(one.hypotheses[0]) == LENGTH for one in found)

    return translate


def work(connection, engine, name, options):
    """A process: build an engine, then time what is asked for."""
    import pet_fairseq  # noqa: F401  registers the models

    torch.set_num_threads(options.threads)
    with ExitStack() as patches:
        for target, replacement in WITHOUT.get(engine, {}).items():
            patches.enter_context(mock.patch(target, replacement))
        build = ctranslate2_engine if engine in CTRANSLATE2 else torch_engine
        translate = build(engine, name, options)
        while (asked := connection.recv()) is not None:
            beam, batches = asked
            Path("/proc/self/clear_refs").write_text("5")  # peak memory counts from here
            start = time.perf_counter()
            for batch in batches:
                translate(batch, beam)
            connection.send((time.perf_counter() - start, peak_megabytes()))


def peak_megabytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


# --- the arithmetic -------------------------------------------------------------------------------


def needed_flops(name, words, beam):
    """FLOPs of the matrix products for one sentence; the first step has one row, not `beam`."""
    model, _, _ = make_model(name, words)
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
    """Multiplications for one position."""
    linears = (m for _, m in module.named_modules(remove_duplicate=False))
    return sum(m.weight.numel() for m in linears if isinstance(m, nn.Linear))


def width(attention):
    return attention.num_heads * attention.head_dim


def product_rate(options):
    """FLOPs a second of a large float product: the best of several."""
    a, b = (
        torch.randn(2048, 2048, device=options.device, dtype=getattr(torch, options.dtype))
        for _ in range(2)
    )
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        a @ b
        if options.device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best


# --- measuring ------------------------------------------------------------------------------------


def measure(name, options):
    """Rows of one model: engines x beams x batch sizes."""
    context = multiprocessing.get_context("spawn")
    workers = {}
    for engine in options.engines:
        here, there = context.Pipe()
        process = context.Process(target=work, args=(there, engine, name, options), daemon=True)
        process.start()
        workers[engine] = here
    rows = []
    for beam in options.beams:
        flops = needed_flops(name, options.words, beam)
        for size_of_batch in options.batch_sizes:
            rate = product_rate(options)
            times, peaks = take_turns(workers, beam, batches(size_of_batch, options), options)
            sentences = max(
                size_of_batch, options.sentences_of_small // size_of_batch * size_of_batch
            )
            for engine, found in times.items():
                speed = sentences / statistics.median(found)
                rows.append(
                    {
                        "model": name,
                        "engine": engine,
                        "beam": beam,
                        "batch": size_of_batch,
                        "sentences_per_second": speed,
                        "tokens_per_second": speed * LENGTH,
                        "times_fairseq": statistics.median(
                            a / b for a, b in zip(times[options.engines[0]], found)
                        ),
                        "share_of_bound": speed * flops / rate,
                        "peak_megabytes": max(peaks[engine]),
                    }
                )
    for worker in workers.values():
        worker.send(None)
    return rows


def batches(size_of_batch, options):
    count = max(1, options.sentences_of_small // size_of_batch)
    shape = (count, size_of_batch, LENGTH)
    return torch.randint(4, options.words, shape).tolist()


def take_turns(workers, beam, work_to_do, options):
    times, peaks = ({engine: [] for engine in workers} for _ in range(2))
    for number in range(options.rounds + 1):
        order = list(workers) if number % 2 else list(reversed(workers))
        for engine in order:
            workers[engine].send((beam, work_to_do))
            seconds, peak = workers[engine].recv()
            if number:
                times[engine].append(seconds)
                peaks[engine].append(peak)
    return times, peaks


def table(rows):
    lines = [
        "| model | beam | batch | engine | sentences/s | tokens/s | over the first | of the bound "
        "| peak MB |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row['model']} | {row['beam']} | {row['batch']} | {row['engine']} "
            f"| {row['sentences_per_second']:.1f} | {row['tokens_per_second']:.0f} "
            f"| {row['times_fairseq']:.2f} | {row['share_of_bound']:.0%} "
            f"| {row['peak_megabytes']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # fairseq turns on everything
    from matplotlib import pyplot

    groups = sorted({(row["model"], row["beam"]) for row in rows})
    figure, axes = pyplot.subplots(1, len(groups), figsize=(3.2 * len(groups), 3.2), squeeze=False)
    for axis, (model, beam) in zip(axes[0], groups):
        mine = [row for row in rows if (row["model"], row["beam"]) == (model, beam)]
        for engine in dict.fromkeys(row["engine"] for row in mine):
            points = [r for r in mine if r["engine"] == engine]
            axis.plot(
                [str(r["batch"]) for r in points],
                [r["sentences_per_second"] for r in points],
                marker="o",
                label=engine,
            )
        axis.set(title=f"{model}, beam {beam}", xlabel="sentences in a batch")
    axes[0][0].set_ylabel("sentences/s")
    axes[0][-1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument(
        "--engines", nargs="+", default=["fairseq", "fast", *CTRANSLATE2], choices=ENGINES
    )
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument(
        "--batch-sizes",
        nargs="+",
        type=int,
        default=[1, 32, 128, 4000 // (LENGTH + 1)],
        help="sentences; the last default is 4,000 tokens",
    )
    parser.add_argument("--sentences-of-small", type=int, default=16, help="at least so many")
    parser.add_argument("--words", type=int, default=10000, help="of the vocabulary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.models:
        rows += measure(name, options)
        (options.out / "decoding.json").write_text(json.dumps(rows, indent=1))
        (options.out / "decoding.md").write_text(table(rows))
        plot(rows, options.out / "decoding.png")
    print(table(rows), end="")


if __name__ == "__main__":
    main()
