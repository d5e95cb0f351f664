"""Gives on-demand streams the shards that their traffic needs.

Every instance watches the puts that it takes itself (`limit.demand`). To add shards that is enough:
each instance also applies the limits of shards to its own puts. Before it takes shards away, it
compares its count with the log: if others have put records into the stream, it leaves the stream as
it is.
"""

import threading
import time
from typing import Final

import structlog

from headrace.client.read.offset_lookup import LATEST
from headrace.gateway.kinesis.limit.demand import Demand, ScalingRule
from headrace.gateway.kinesis.record.shard_reader import ShardReader
from headrace.gateway.kinesis.store.stream_keeper import StreamKeeper
from headrace.gateway.kinesis.store.stream_store import StreamStore
from headrace.gateway.kinesis.stream.reshard_plan import plan_uniform
from headrace.gateway.kinesis.stream.stream_state import StreamMode, StreamState
from headrace.model.ids import TopicPartition

log = structlog.get_logger()

_MOST_PARTITIONS: Final = 10_000
"""A topic keeps the partitions of closed shards: a stream that had so many scales no more."""

_LOOKS_PER_WINDOW: Final = 5


class Scaler:
    """A thread that looks at every on-demand stream a few times per window."""

    def __init__(
        self, rule: ScalingRule, store: StreamStore, keeper: StreamKeeper, reader: ShardReader
    ) -> None:
        self.demand = Demand(rule)
        self._rule = rule
        self._store = store
        self._keeper = keeper
        self._reader = reader
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinesis-scaler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stopping.wait(self._rule.window_seconds / _LOOKS_PER_WINDOW):
            streams = [
                each for each in self._store.streams.values() if each.mode is StreamMode.ON_DEMAND
            ]
            self.demand.keep_only({each.name for each in streams})
            for stream in streams:
                try:
                    self.look(stream)
                except Exception as error:  # noqa: BLE001 - the next look tries again
                    log.warning("kinesis_stream_not_scaled", stream=stream.name, error=repr(error))

    def look(self, stream: StreamState) -> None:
        """Announce another number of shards for a stream if it needs one.

        Raises:
            ClientError, ServiceError: the cluster does not answer, or refuses.
        """
        if not stream.is_settled or stream.partition_count >= _MOST_PARTITIONS:
            return
        now = time.monotonic()
        count = len(stream.open_shards)
        age_ms = _now_ms() - max(each.created_ms for each in stream.shards)
        wish = self.demand.wished_shards(
            stream.name, count, stream.least_shards, age_ms / 1000, now
        )
        if wish == count or (wish < count and self._others_put(stream, now)):
            return

        def step(current: StreamState | None) -> StreamState | None:
            if current is None or current.revision != stream.revision:
                return current  # another change was first: look again
            plan = plan_uniform(current, wish, _now_ms())
            return current if plan is None else current.announced(plan)

        self._keeper.change(stream.name, step)
        log.info("kinesis_stream_scaled", stream=stream.name, shards=count, wished=wish)

    def _others_put(self, stream: StreamState, now: float) -> bool:
        """Return whether the log has more new records than this instance has counted."""
        own = self.demand.records(stream.name, now)
        since_ms = _now_ms() - int(self._rule.calm_seconds * 1000)
        found = 0
        for shard in stream.open_shards:
            partition = TopicPartition(stream.name, shard.partition)
            end = self._reader.offset_at(partition, LATEST)
            found += end - self._reader.offset_at(partition, since_ms)
        return found > own


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
