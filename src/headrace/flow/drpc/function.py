"""A topology that answers requests.

All tuples that come of one request are in one batch, and a bolt is called once a batch and task
with all of its tuples. So a bolt behind a fields grouping by `request` sees everything of a request
at once: it needs no sign that the last tuple has come.
"""

import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.drpc.exchange import Exchange, deadline_of
from headrace.flow.plan.plan import DEFAULT_STREAM, Guarantee
from headrace.flow.runtime.work import Emit
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

REQUESTS = "requests"
"""The component that a function's bolts read; its fields are `request` and `args`, both STRING."""


class FunctionTopology(Topology):
    """A topology with a component `requests`, and `reply` for results.

    Every request needs one reply. What a bolt raises is the caller's answer too, if the tuple that
    it raised at has the field `request`.

    Args:
        function: what callers name; the topics are called after it.

    Example:
        def exclaim(request, args):
            return (request, args + "!")

        topology = FunctionTopology("exclaim", brokers=brokers)
        exclaims = topology.bolt("exclaim", exclaim, output="request STRING, result STRING")
        exclaims.shuffle("requests")
        topology.reply("exclaim")
    """

    def __init__(
        self,
        function: str,
        *,
        brokers: str,
        guarantee: str | Guarantee = Guarantee.AT_LEAST_ONCE,
        retries: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        exchange = Exchange(function)
        super().__init__(
            f"drpc-{function}",
            guarantee=guarantee,
            dead_letters=exchange.failures,
            retries=retries,
            settings=settings,
        )
        self.exchange = exchange
        self.spout(
            "drpc",
            TopicSpout(exchange.requests, brokers=brokers, fields="key STRING, value STRING"),
        )
        self.bolt(REQUESTS, awaited, output="request STRING, args STRING").shuffle("drpc")

    def reply(self, component: str, result: str = "result", stream: str = DEFAULT_STREAM) -> None:
        """Send a component's tuples to the callers: the field `result`, to whom `request` says."""
        sink = TopicSink(self.exchange.replies, key="request", value=result)
        self.sink(f"reply-{component}", sink).shuffle(component, stream)


def awaited(batch: pa.RecordBatch, emit: Emit) -> None:
    """The requests that somebody still waits for."""
    now_ms = time.time_ns() // 1_000_000
    kept = [row for row, each in enumerate(batch["key"].to_pylist()) if deadline_of(each) > now_ms]
    if kept:
        args = pc.fill_null(batch["value"].take(kept), "")
        emit([batch["key"].take(kept), args], rows=kept)
