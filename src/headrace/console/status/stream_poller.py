"""Reads the streams of the Kinesis gateway from their topic, every few seconds."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from headrace.client.error import BrokerError, ClientError
from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.series_set import SeriesSet
from headrace.console.status.snapshot import Snapshot
from headrace.gateway.kinesis.store.stream_topic import STREAM_PARTITION, read_stream
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_FIRST_SECONDS: Final = 10.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_MOST_STREAMS: Final = 10_000
_IN_FLIGHT_BYTES: Final = 32 * 1024 * 1024
_MISSING: Final = ErrorCode.unknown_topic_or_partition


class StreamPoller(PollingThread):
    """Keeps every stream as its last record describes it, and what is written to its shards.

    Args:
        snapshot: returns the cluster's last one, with the end offsets.

    Attributes:
        problem: why the streams cannot be read; None also where no gateway has ever run.
        ends: the end offsets of the partitions of streams.
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
        self._streams: dict[str, StreamState] = {}
        self._measured_ms = 0
        self._polls = 0
        self.problem: str | None = None
        self.ends: SeriesSet[TopicPartition] = SeriesSet()

    @property
    def streams(self) -> Mapping[str, StreamState]:
        """All streams by name. It is replaced, never changed."""
        return MappingProxyType(self._streams)

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
        self._measure()
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
            self._streams, self._position = {}, LogEdge.EARLIEST
            return
        streams = dict(self._streams)
        with reader:
            extent = reader.resolved_ranges[STREAM_PARTITION]
            if extent.end is not None and extent.end < extent.start:
                # The topic was deleted and created again: it ends before our position.
                self._streams, self._position = {}, LogEdge.EARLIEST
                return
            for chunk in reader:
                columns = chunk.columns.to_pydict()
                for key, value in zip(columns["key"], columns["value"], strict=True):
                    _apply(streams, key, value)
                self._position = chunk.next_offset
        self._streams = streams

    def _measure(self) -> None:
        try:
            snapshot = self._snapshot()
        except ClientError:
            return  # the console has just started, or says on every page that it has none
        if snapshot.at_ms == self._measured_ms:
            return
        self._measured_ms = snapshot.at_ms
        known = self._streams
        ends = {place: end for place, end in snapshot.ends.items() if place.topic in known}
        self.ends.add(snapshot.at_ms, ends)


def _apply(streams: dict[str, StreamState], key: bytes | None, value: bytes | None) -> None:
    """Apply one record; those of leases and of the seal are none of a stream."""
    name = (key or b"").decode(errors="replace")
    if value is None:
        streams.pop(name, None)
        return
    try:
        stream = read_stream(value)
    except ValueError:
        return
    if stream.name == name and (name in streams or len(streams) < _MOST_STREAMS):
        streams[name] = stream
