"""The HTTP side: routes, limits and statuses."""

import asyncio
import functools
import json
import logging

from aiohttp import web

from pet_fairseq.serve.connections import HEAD_LIMITS, PREDICT, Entrance
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.request import RequestError, read_texts

BODY_SECONDS = 10.0  # a client that sends slower must not hold up a shutdown
GONE = 499  # counted but never sent: the client went away before the answer

logger = logging.getLogger(__name__)
dumps = functools.partial(json.dumps, ensure_ascii=False)


def make_runner(engine: Engine, entrance: Entrance, max_bytes: int) -> web.AppRunner:
    """The server around an engine, behind an entrance that is not open yet.

    Args:
        max_bytes: the largest body of a request.
    """
    routes = Routes(engine, entrance, max_bytes)
    app = web.Application(client_max_size=max_bytes)
    app.add_routes(
        [
            web.post(PREDICT, routes.predict),
            web.get("/metrics", routes.metrics),
            web.get("/health", routes.health),
        ]
    )
    return web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,  # no work for a client that has gone away
        auto_decompress=False,
        keepalive_timeout=entrance.idle_seconds,
        **HEAD_LIMITS,
    )


class Routes:
    """The answers to POST /predict, GET /metrics and GET /health."""

    def __init__(self, engine: Engine, entrance: Entrance, max_bytes: int):
        self.engine = engine
        self.entrance = entrance
        self.max_bytes = max_bytes

    async def predict(self, request: web.Request) -> web.Response:
        """Answer the texts of a request, and count it by its status."""
        loop = asyncio.get_running_loop()
        metrics = self.engine.metrics
        arrived = loop.time()
        try:
            data = await self._answer(request)
        except (asyncio.CancelledError, ConnectionError):
            metrics.count_request(GONE)
            raise
        except RequestError as error:
            response = refusal(error)
        except Exception:
            logger.exception("a request failed")
            response = refusal(RequestError(500, "the server failed on this request"))
        else:
            response = web.json_response(data, dumps=dumps)
            metrics.count_answer(loop.time() - arrived, loop.time())
        metrics.count_request(response.status)
        if self.entrance.crowded:
            response.force_close()
        return response

    async def _answer(self, request: web.Request) -> dict:
        self.engine.queue.check()  # before the body of a request that has no place is read
        texts, single = read_texts(await read_body(request, self.max_bytes))
        answers = await self.engine.submit(texts)
        return answers[0] if single else {"answers": answers}

    async def metrics(self, request: web.Request) -> web.Response:
        """The figures of the server as text for Prometheus."""
        engine = self.engine
        now = asyncio.get_running_loop().time()
        text = engine.metrics.text(len(engine.queue), engine.queue.tokens, now)
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=text.encode(), headers=headers)

    async def health(self, request: web.Request) -> web.Response:
        """Status 200 while texts can be answered, else 503."""
        if self.engine.queue.closed:
            return web.json_response({"status": "shutting down"}, status=503)
        if self.engine.broken:
            return web.json_response({"status": "the model fails on every text"}, status=503)
        return web.json_response({"status": "ok", "ratios": self.engine.scheduler.ratios})


async def read_body(request: web.Request, max_bytes: int) -> bytes:
    """The body of a request.

    Raises:
        RequestError: 415 compressed, 413 too large, 408 too slow, 400 broken.
    """
    if "Content-Encoding" in request.headers:
        raise RequestError(415, "body: send it without Content-Encoding")
    too_large = RequestError(413, f"body: at most {max_bytes} bytes are taken")
    if (request.content_length or 0) > max_bytes:
        raise too_large
    try:
        return await asyncio.wait_for(request.read(), BODY_SECONDS)
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None
    except asyncio.TimeoutError:  # not the builtin one before Python 3.11
        raise RequestError(408, f"body: not there after {BODY_SECONDS:g} seconds") from None
    except web.RequestPayloadError:
        raise RequestError(400, "body: cannot be read") from None


def refusal(error: RequestError) -> web.Response:
    headers = {"Retry-After": "1"} if error.status == 503 else {}
    return web.json_response({"error": str(error)}, status=error.status, headers=headers)
