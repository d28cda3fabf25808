"""The life of the server: load, measure, listen, and answer what still waits when told to stop."""

import argparse
import asyncio
import contextlib
import functools
import signal
from collections.abc import Awaitable

from pet_fairseq.serve.admission import Admission
from pet_fairseq.serve.app import make_runner
from pet_fairseq.serve.connections import Connections, check_address
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.model_process import ModelProcess, load_served, quiet
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.scheduler import Cost, RatioScheduler

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
HANG_SECONDS = 60.0  # after which texts or a batch are taken to hang, unless batches are slow
SLOW = 10  # times as long as at the start


def serve(args: argparse.Namespace, text_options: list[str]) -> None:
    """Answer requests until SIGTERM or SIGINT; see options.py for args.

    Raises:
        UserError: what the user gave cannot be served, or not at that address.
    """
    quiet()
    asyncio.run(load_and_answer(args, text_options))


async def load_and_answer(args: argparse.Namespace, text_options: list[str]) -> None:
    """Load the model in a process of its own, measure it and serve it; raises as `serve`."""
    await check_address(args.host, args.port)  # before all that takes long
    model = ModelProcess(functools.partial(load_served, args, text_options))
    try:
        await model.start()
        costs = await model.measure(args.ratio, args.max_batch_tokens)
        print(format_costs(costs, args.max_batch_tokens, args.target_ms), flush=True)
        model.limits = {
            "texts": args.max_text_seconds + HANG_SECONDS,
            "batches": args.max_batch_seconds or batch_limit(costs, args.max_batch_tokens),
        }
        await answer_until_stopped(args, model, costs)
    finally:
        model.close()


def batch_limit(costs: dict[int, Cost], batch_tokens: int) -> float:
    """The seconds that a batch may take by default, from what a full one took at the start."""
    slowest = max(cost.seconds(batch_tokens) for cost in costs.values())
    return max(HANG_SECONDS, SLOW * slowest)


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


def make_engine(args: argparse.Namespace, model: ModelProcess, costs: dict[int, Cost]) -> Engine:
    """The engine of a loaded model, with its queue, scheduler and metrics."""
    target = args.target_ms / 1000
    scheduler = RatioScheduler(costs, target, args.max_batch_tokens)
    queue = BatchQueue(args.max_queue, args.max_batch_tokens, args.batch_order == "length")
    return Engine(model, queue, scheduler, Metrics(queue, target, scheduler.ratios[0]))


async def answer_until_stopped(
    args: argparse.Namespace, model: ModelProcess, costs: dict[int, Cost]
) -> None:
    """Listen; on a signal take no more, answer what waits, and return.

    Raises:
        UserError: as `listen`, or the model ended and could not be loaded again.
    """
    engine = make_engine(args, model, costs)
    connections = Connections(args.max_connections, args.max_idle_seconds)
    admission = Admission(engine.queue, engine.metrics, connections, args.max_request_bytes)
    runner = make_runner(engine, admission)
    await runner.setup()
    assert runner.server is not None, "there from `setup` on"
    server = await connections.open(runner.server, admission.check_first, args.host, args.port)
    work = asyncio.ensure_future(engine.run())
    keeping = asyncio.ensure_future(model.keep_running())
    with stop_event() as stopped:
        print(f"listening on {url(*server.sockets[0].getsockname()[:2])}", flush=True)
        await first_of(stopped.wait(), work, keeping)
    server.close()
    connections.close()
    engine.queue.close()
    await first_of(work, keeping)
    keeping.cancel()
    await runner.cleanup()  # lets the last answers be sent


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def first_of(*awaitables: Awaitable) -> None:
    """Wait for the first of some events and tasks; raises its error."""
    waiting = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


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
