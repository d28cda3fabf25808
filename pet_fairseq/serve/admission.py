"""Which requests are taken: the only place that knows what is refused, and with which status."""

from aiohttp import web

from pet_fairseq.serve.connections import Connections
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.request import RequestError

PREDICT = "/predict"  # the route of texts
RETRY_SECONDS = 1  # after which a client may try again what was refused with status 503


def has_texts(request: web.Request) -> bool:
    """Whether a request brings texts; others are small and answered at once."""
    return request.method == "POST" and request.path == PREDICT


class Admission:
    """Decides whether a request is taken.

    Args:
        queue: where texts need places. max_bytes: the largest body of a request.
        connections: an eighth of their limit is kept for requests without texts.
    """

    def __init__(self, queue: BatchQueue, connections: Connections, max_bytes: int):
        self.queue = queue
        self.connections = connections
        self.max_bytes = max_bytes

    def check_head(self, request: web.Request) -> None:
        """Check a request before its body is read.

        Raises:
            RequestError: 503 too many connections, or no place in the queue; 415 compressed;
                413 too large.
        """
        limit = self.connections.limit
        if not has_texts(request):
            self._check_connections(limit, "connections")
            return
        self._check_connections(limit - limit // 8, "connections with texts")
        self.check_places(1)
        if "Content-Encoding" in request.headers:
            raise RequestError(415, "body: send it without Content-Encoding")
        if (request.content_length or 0) > self.max_bytes:
            raise self.too_large

    def _check_connections(self, limit: int, kind: str) -> None:
        if self.connections.speaking > limit:
            raise RequestError(503, f"{limit} {kind} are open, more are not taken")

    def check_places(self, count: int) -> None:
        """Check that so many more texts can wait.

        Raises:
            RequestError: 413 if they never can; 503 if the queue is full now, or closed.
        """
        if count > self.queue.capacity:
            raise RequestError(
                413, f"texts: {count} are more than the queue holds ({self.queue.capacity})"
            )
        if self.queue.closed:
            raise RequestError(503, "the server is shutting down")
        if self.queue.is_full(count):
            raise RequestError(503, "the queue is full")

    @property
    def too_large(self) -> RequestError:
        """Why a body with too many bytes is refused, also one that did not announce its length."""
        return RequestError(413, f"body: at most {self.max_bytes} bytes are taken")
