"""Reads the streams of the Kinesis gateway from their topic, every few seconds."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from headrace.client.error import ClientError
from headrace.client.read.table_reader import TableReader
from headrace.client.settings import ClientSettings
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.series_set import SeriesSet
from headrace.console.status.snapshot import Snapshot
from headrace.console.status.stream_status import stream_status
from headrace.gateway.kinesis.store.stream_topic import STREAM_PARTITION, read_stream
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.model.ids import TopicPartition

_FIRST_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOST_SHOWN: Final = 100
_MOST_STREAMS: Final = 1_000
# Some thousand shards. Anyone who may write to the topic can write larger ones.
_LARGEST_BYTES: Final = 1024 * 1024
_IN_FLIGHT_BYTES: Final = 32 * 1024 * 1024


class StreamPoller(PollingThread):
    """Keeps every stream as its last record describes it, and what is written to its shards.

    Args:
        snapshot: returns the cluster's last one, with the end offsets.

    Attributes:
        streams: the fields of the first streams by name (`stream_status`). It is replaced, never
            changed.
        more: how many streams there are beyond them.
        problem: why the streams cannot be read; None also where no gateway has ever run.
    """

    def __init__(
        self,
        settings: ClientSettings,
        interval_seconds: float,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        super().__init__("console-streams")
        self._interval = self._pause = interval_seconds
        self._snapshot = snapshot
        self._table = StreamTable()
        self._reader = TableReader(
            settings,
            STREAM_PARTITION,
            self._table,
            columns=["key", "value"],
            read_committed=True,
            max_bytes_in_flight=_IN_FLIGHT_BYTES,
        )
        self._known: dict[str, StreamState] = {}
        self._ends: SeriesSet[TopicPartition] = SeriesSet()
        self._measured_ms = 0
        self._polls = 0
        self.streams: tuple[dict[str, Any], ...] = ()
        self.more = 0
        self.problem: str | None = None

    def wait_for_first(self) -> None:
        """Return when the topic was read once, or after 10 seconds."""
        self.wait_until(lambda: self._polls > 0, _FIRST_SECONDS)

    def poll_once(self) -> float:
        try:
            self._reader.update()
            self._known = dict(self._table.streams)  # all of it, or what was known before
            self.problem = None
            self._pause = self._interval
        except ClientError as error:
            self.problem = str(error)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._show()
        self._polls += 1
        self.notify_waiting()
        return self._pause

    def release(self) -> None:
        """Nothing is kept open between two polls."""

    def _show(self) -> None:
        """Work out what the page shows, once for all requests."""
        snapshot = self._measured_snapshot()
        names = sorted(self._known)
        self.streams = tuple(
            stream_status(self._known[each], self._ends, snapshot) for each in names[:_MOST_SHOWN]
        )
        self.more = max(0, len(names) - _MOST_SHOWN)

    def _measured_snapshot(self) -> Snapshot | None:
        try:
            snapshot = self._snapshot()
        except ClientError:
            return None  # the console has just started, or says on every page that it has none
        if snapshot.at_ms != self._measured_ms:
            self._measured_ms = snapshot.at_ms
            ends = {
                place: end for place, end in snapshot.ends.items() if place.topic in self._known
            }
            self._ends.add(snapshot.at_ms, ends)
        return snapshot


class StreamTable:
    """The streams that the records of the topic describe."""

    def __init__(self) -> None:
        self.streams: dict[str, StreamState] = {}

    def clear(self) -> None:
        self.streams = {}

    def add(self, columns: pa.RecordBatch) -> None:
        rows = columns.to_pydict()
        for key, value in zip(rows["key"], rows["value"], strict=True):
            self._apply(key, value)

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record; those of leases and of the seal are none of a stream."""
        known = self.streams
        name = (key or b"").decode(errors="replace")
        if value is None or len(value) > _LARGEST_BYTES:
            known.pop(name, None)
            return
        try:
            stream = read_stream(value)
        except ValueError:
            return
        if stream.name == name and (name in known or len(known) < _MOST_STREAMS):
            known[name] = stream
