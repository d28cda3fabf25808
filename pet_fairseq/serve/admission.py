"""Which requests are taken: the only place that knows what is refused, and with which status."""

from aiohttp import web

from pet_fairseq.serve.connections import Connections
from pet_fairseq.serve.metrics import Metrics
from pet_fairseq.serve.queue import BatchQueue
from pet_fairseq.serve.request import RequestError

PREDICT = "/predict"  # the route of texts
TEXTS = f"POST {PREDICT} ".encode()  # the first bytes of a request with texts


def has_texts(request: web.Request) -> bool:
    """Whether a request brings texts; others are small and answered at once."""
    return request.method == "POST" and request.path == PREDICT


class Admission:
    """Decides whether a request is taken.

    Args:
        queue: where texts need places. metrics: where connections that are refused are counted.
        connections: an eighth of their limit is kept for requests without texts.
        max_bytes: the largest body of a request.
    """

    def __init__(
        self, queue: BatchQueue, metrics: Metrics, connections: Connections, max_bytes: int
    ):
        self.queue = queue
        self.metrics = metrics
        self.connections = connections
        self.max_bytes = max_bytes

    def check_first(self, start: bytes) -> None:
        """Check a new connection by its first bytes; texts for which there is no place go here.

        Raises:
            RequestError: 503 too many connections with texts are open; or as `check_places`.
        """
        if not start.startswith(TEXTS):
            return
        try:
            self._check_connections()
            self.check_places(1)
        except RequestError as error:
            self.metrics.count_request(error.status)
            raise

    def _check_connections(self) -> None:
        limit = self.connections.limit - self.connections.limit // 8
        if self.connections.taken >= limit:
            raise RequestError(503, f"{limit} connections with texts are open, more are not taken")

    def check_head(self, request: web.Request) -> None:
        """Check a request before its body is read.

        Raises:
            RequestError: 503 no place in the queue; 415 compressed; 413 too large.
        """
        if not has_texts(request):
            return
        self.check_places(1)
        if "Content-Encoding" in request.headers:
            raise RequestError(415, "body: send it without Content-Encoding")
        if (request.content_length or 0) > self.max_bytes:
            raise self.too_large

    def check_places(self, count: int) -> None:
        """Check that `count` more texts can wait.

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
