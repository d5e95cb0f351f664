"""Reads the streams of the Kinesis gateway from their topic, every few seconds."""

from collections.abc import Callable
from typing import Any, Final

from headrace.client.error import BrokerError, ClientError
from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.series_set import SeriesSet
from headrace.console.status.snapshot import Snapshot
from headrace.console.status.stream_status import stream_status
from headrace.gateway.kinesis.store.stream_topic import STREAM_PARTITION, read_stream
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_FIRST_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOST_SHOWN: Final = 100
_MOST_STREAMS: Final = 1_000
# Some thousand shards. Anyone who may write to the topic can write larger ones.
_LARGEST_BYTES: Final = 1024 * 1024
_IN_FLIGHT_BYTES: Final = 32 * 1024 * 1024
_MISSING: Final = ErrorCode.unknown_topic_or_partition


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
        self._settings = settings
        self._interval = self._pause = interval_seconds
        self._snapshot = snapshot
        self._position: int | LogEdge = LogEdge.EARLIEST
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
            self._read_new()
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

    def _read_new(self) -> None:
        try:
            reader = Reader(
                self._settings,
                {STREAM_PARTITION: ReadRange(self._position)},
                read_committed=True,
                columns=["key", "value"],
                max_bytes_in_flight=_IN_FLIGHT_BYTES,
                reset=LogEdge.EARLIEST,
            )
        except BrokerError as error:
            if error.code is not _MISSING:
                raise
            self._start_over()
            return
        known, position = dict(self._known), self._position
        with reader:
            extent = reader.resolved_ranges[STREAM_PARTITION]
            if extent.end is not None and extent.end < extent.start:
                # The topic was deleted and created again: it ends before our position.
                self._start_over()
                return
            for chunk in reader:
                columns = chunk.columns.to_pydict()
                for key, value in zip(columns["key"], columns["value"], strict=True):
                    _apply(known, key, value)
                position = chunk.next_offset
        if reader.lost and position is not LogEdge.EARLIEST:
            # What compaction removed may have been the end of a stream.
            self._start_over()
            return
        self._known, self._position = known, position

    def _start_over(self) -> None:
        self._known, self._position = {}, LogEdge.EARLIEST

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


def _apply(known: dict[str, StreamState], key: bytes | None, value: bytes | None) -> None:
    """Apply one record; those of leases and of the seal are none of a stream."""
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
