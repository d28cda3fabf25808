"""The HTTP side: routes, limits and statuses."""

import asyncio
import functools
import json
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from pet_fairseq.serve.admission import PREDICT, Admission, has_texts
from pet_fairseq.serve.engine import Engine
from pet_fairseq.serve.request import RETRY_SECONDS, RequestError, read_texts

BODY_SECONDS = 10.0  # a client that sends slower must not hold up a shutdown
GONE = 499  # counted but never sent: the client went away before the answer
# limits of a request's line and headers; aiohttp's own let 1 MB in
MAX_LINE, MAX_FIELD, MAX_HEADERS = 2048, 4096, 64

logger = logging.getLogger(__name__)
dumps = functools.partial(json.dumps, ensure_ascii=False)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_runner(engine: Engine, admission: Admission) -> web.AppRunner:
    """The server around an engine, without an address so far."""
    routes = Routes(engine, admission)
    app = web.Application(client_max_size=admission.max_bytes, middlewares=[routes.answer])
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
        keepalive_timeout=admission.connections.idle_seconds,
        max_line_size=MAX_LINE,
        max_field_size=MAX_FIELD,
        max_headers=MAX_HEADERS,
    )


class Routes:
    """The answers to POST /predict, GET /metrics and GET /health."""

    def __init__(self, engine: Engine, admission: Admission):
        self.engine = engine
        self.admission = admission

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The answer of a route, or why there is none; requests with texts are counted."""
        try:
            response = await self._admit(request, handler)
        except (asyncio.CancelledError, ConnectionError):
            self._count(request, GONE)
            raise
        self._count(request, response.status)
        if self.admission.connections.crowded:
            response.force_close()
        return response

    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self.admission.check_head(request)
            return await handler(request)
        except RequestError as error:
            return refusal(error)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            logger.exception("a request failed")
            return refusal(RequestError(500, "the server failed on this request"))

    def _count(self, request: web.Request, status: int) -> None:
        if has_texts(request):
            self.engine.metrics.count_request(status)

    async def predict(self, request: web.Request) -> web.Response:
        """The answers to the texts of a request."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        texts, single = read_texts(await self._read_body(request))
        self.admission.check_places(len(texts))
        answers = await self.engine.submit(texts)
        response = web.json_response(answers[0] if single else {"answers": answers}, dumps=dumps)
        self.engine.metrics.count_answer(loop.time() - arrived)
        return response

    async def _read_body(self, request: web.Request) -> bytes:
        """The body of a request.

        Raises:
            RequestError: 413 too large, 408 too slow, 400 broken.
        """
        try:
            return await asyncio.wait_for(request.read(), BODY_SECONDS)
        except web.HTTPRequestEntityTooLarge:
            raise self.admission.too_large from None
        except asyncio.TimeoutError:  # not the builtin one before Python 3.11
            raise RequestError(408, f"body: not there after {BODY_SECONDS:g} seconds") from None
        except web.RequestPayloadError:
            raise RequestError(400, "body: cannot be read") from None

    async def metrics(self, request: web.Request) -> web.Response:
        """The figures of the server as text for Prometheus."""
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        return web.Response(body=self.engine.metrics.page(), headers=headers)

    async def health(self, request: web.Request) -> web.Response:
        """Status 200 while texts can be answered, else 503."""
        status = self.engine.why_not_ready()
        if status is not None:
            return web.json_response({"status": status}, status=503)
        return web.json_response({"status": "ok", "ratios": self.engine.scheduler.ratios})


def refusal(error: RequestError) -> web.Response:
    headers = {"Retry-After": str(RETRY_SECONDS)} if error.status == 503 else {}
    return web.json_response({"error": str(error)}, status=error.status, headers=headers)
