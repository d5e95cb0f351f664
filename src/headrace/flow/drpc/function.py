"""A topology that answers DRPC requests.

All tuples of a request are in one batch, and a bolt is called once per batch and task with all of
its tuples. So a bolt with a fields grouping by `request` sees all tuples of a request in one call:
it needs no marker for the last tuple.
"""

import time
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.drpc.function_topics import FunctionTopics, deadline_of
from headrace.flow.plan.plan import DEFAULT_STREAM, Guarantee
from headrace.flow.plan.work import Emit
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

REQUESTS = "requests"
"""The component that a function's bolts read. Its fields are `request` and `args`, both STRING."""


class FunctionTopology(Topology):
    """A topology with a component `requests`, and `reply` for results.

    Every request needs one reply. If a bolt raises for a tuple with the field `request`, the caller
    gets the error.

    Args:
        function: the name that callers use; the topics have it in their names.

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
        topics = FunctionTopics(function)
        super().__init__(
            f"drpc-{function}",
            guarantee=guarantee,
            dead_letters=topics.failures,
            retries=retries,
            settings=settings,
        )
        self.function_topics = topics
        self.spout(
            "drpc",
            TopicSpout(topics.requests, brokers=brokers, fields="key STRING, value STRING"),
        )
        self.bolt(REQUESTS, unexpired, output="request STRING, args STRING").shuffle("drpc")

    def reply(self, component: str, result: str = "result", stream: str = DEFAULT_STREAM) -> None:
        """Reply with a component's tuples: the field `result`, to the caller of `request`."""
        sink = TopicSink(self.function_topics.replies, key="request", value=result)
        self.sink(f"reply-{component}", sink).shuffle(component, stream)


def unexpired(batch: pa.RecordBatch, emit: Emit) -> None:
    """Emit the requests whose callers still wait."""
    now_ms = time.time_ns() // 1_000_000
    kept = [row for row, each in enumerate(batch["key"].to_pylist()) if deadline_of(each) > now_ms]
    if kept:
        args = pc.fill_null(batch["value"].take(kept), "")
        emit([batch["key"].take(kept), args], rows=kept)
