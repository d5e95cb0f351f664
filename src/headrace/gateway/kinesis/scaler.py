"""Gives on-demand streams the shards that their traffic needs.

Every instance watches the puts that it takes itself (`limit.demand`). To add shards that is enough:
each instance also applies the limits of shards to its own puts. Before it takes shards away, it
compares its count with the log: if others have put records into the stream, it leaves the stream as
it is.

A stream that should be resharded and cannot is left as it is, and the log says why, once: because
one key is hot, because it has its most shards, or because its topic has its most partitions.
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
"""A topic keeps the partitions of closed shards: a stream that would need more scales no more."""

_MOST_PARTITIONS_REACHED: Final = "most partitions"
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
        self._frozen: dict[str, str] = {}
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
            names = {each.name for each in streams}
            self.demand.keep_only(names)
            self._frozen = {name: why for name, why in self._frozen.items() if name in names}
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
        if not stream.is_settled:
            return
        now = time.monotonic()
        count = len(stream.open_shards)
        age_ms = _now_ms() - max(each.created_ms for each in stream.shards)
        wish = self.demand.wish(stream.name, count, stream.least_shards, age_ms / 1000, now)
        if wish.shards == count:
            self._note(stream, wish.bound)
            return
        if wish.shards < count and self._others_put(stream, now):
            return
        planned = plan_uniform(stream, wish.shards, _now_ms())
        if planned is None:
            return
        if stream.announced(planned).partition_count > _MOST_PARTITIONS:
            self._note(stream, _MOST_PARTITIONS_REACHED)
            return

        def step(current: StreamState | None) -> StreamState | None:
            if current is None or current.revision != stream.revision:
                return current  # another change was first: look again
            return current.announced(planned)

        self._keeper.change(stream.name, step)
        self._note(stream, None)
        log.info("kinesis_stream_scaled", stream=stream.name, shards=count, wished=wish.shards)

    def _note(self, stream: StreamState, why: str | None) -> None:
        """Log why a stream cannot follow its load, when that begins."""
        if why is None:
            self._frozen.pop(stream.name, None)
        elif self._frozen.get(stream.name) != why:
            self._frozen[stream.name] = why
            log.warning(
                "kinesis_stream_not_scaled",
                stream=stream.name,
                shards=len(stream.open_shards),
                partitions=stream.partition_count,
                reason=str(why),
            )

    def _others_put(self, stream: StreamState, now: float) -> bool:
        """Return whether the log has more new records than this instance has counted."""
        own = self.demand.records(stream.name, now)
        since_ms = _now_ms() - int(self._rule.calm_seconds * 1000)
        partitions = [TopicPartition(stream.name, each.partition) for each in stream.open_shards]
        begins = self._reader.offsets_at(partitions, since_ms)
        ends = self._reader.offsets_at(partitions, LATEST)
        return sum(ends.values()) - sum(begins.values()) > own


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
