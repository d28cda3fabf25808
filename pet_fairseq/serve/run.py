"""The life of the server: load, measure, listen, and answer what still waits when told to stop."""

import argparse
import asyncio
import contextlib
import logging
import signal

from pet_fairseq.predict.load_model import load
from pet_fairseq.predict.predictor import Predictor
from pet_fairseq.serve.app import make_runner
from pet_fairseq.serve.connections import Entrance, check_address
from pet_fairseq.serve.costs import measure_costs
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.heap import keep_trimmed
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.scheduler import Cost, RatioScheduler

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(args: argparse.Namespace, text_options: list[str]) -> None:
    """Answer requests until SIGTERM or SIGINT; see options.py for args.

    Raises:
        UserError: what the user gave cannot be served, or not at that address.
    """
    quiet()
    asyncio.run(check_address(args.host, args.port))  # before all that takes long
    model = load_served(args, text_options)
    ratios = model.ratios if args.ratio == "auto" else [args.ratio]
    costs = measure_costs(model, ratios, args.max_batch_tokens)
    print(format_costs(costs, args.max_batch_tokens, args.target_ms), flush=True)
    asyncio.run(answer_until_stopped(args, model, costs))


def load_served(args: argparse.Namespace, text_options: list[str]) -> Predictor:
    """Load the model with the limits on what clients may send; raises what `load` does."""
    return load(
        args,
        text_options,
        # a longer text would not fit into any batch
        max_tokens=min(args.max_tokens_per_request, args.max_batch_tokens),
        max_chars=args.max_text_chars,
        max_word_chars=args.max_word_chars,
    )


def quiet() -> None:
    """Silence loggers: fairseq turns on every one, and junk from clients is not worth a line."""
    for name in ("fairseq", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


def format_costs(costs: dict[int, Cost], batch_tokens: int, target_ms: float) -> str:
    """A line for each ratio, and one if even the fastest leaves no time to wait for a batch."""
    batch_ms = {ratio: 1000 * cost.seconds(batch_tokens) for ratio, cost in costs.items()}
    lines = [
        f"ratio {ratio}: about {ms:.0f} ms for a batch of {batch_tokens} tokens"
        for ratio, ms in batch_ms.items()
    ]
    if 2 * min(batch_ms.values()) > target_ms:
        lines.append(
            f"note: with such batches --target-ms {target_ms:g} cannot be kept under load; lower "
            "--max-batch-tokens or raise the target"
        )
    return "\n".join(lines)


def make_engine(args: argparse.Namespace, model: Predictor, costs: dict[int, Cost]) -> Engine:
    """The engine of a loaded model, with its queue, scheduler and metrics."""
    target = args.target_ms / 1000
    scheduler = RatioScheduler(costs, target, args.max_batch_tokens)
    queue = BatchQueue(args.max_queue, args.max_batch_tokens, args.batch_order == "length")
    metrics = Metrics(target, scheduler.ratios[0])
    return Engine(
        model, queue, scheduler, metrics, args.max_tokens_per_request, args.max_text_seconds
    )


async def answer_until_stopped(
    args: argparse.Namespace, model: Predictor, costs: dict[int, Cost]
) -> None:
    """Listen; on a signal take no more, answer what waits, and return."""
    engine = make_engine(args, model, costs)
    entrance = Entrance(engine, args.max_connections, args.max_idle_seconds)
    runner = make_runner(engine, entrance, args.max_request_bytes)
    await runner.setup()
    try:
        assert runner.server is not None, "there from `setup` on"
        await entrance.open(runner.server, args.host, args.port)
        work = asyncio.create_task(engine.run())
        trimming = asyncio.create_task(keep_trimmed())
        with stop_event() as stopped:
            print(f"listening on {url(*entrance.address)}", flush=True)
            await first_of(stopped.wait(), work)
        trimming.cancel()
        entrance.close()
        engine.queue.close()
        await work  # raises the error that made it end early, if there was one
    finally:
        await runner.cleanup()  # lets the last answers be sent


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def first_of(stopped, work: asyncio.Task) -> None:
    """Wait for the signal, or for the engine to fail."""
    waiting = asyncio.ensure_future(stopped)
    await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


@contextlib.contextmanager
def stop_event():
    """An event that the first signal sets; after the block signals have their usual effect."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, event.set)
    try:
        yield event
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
