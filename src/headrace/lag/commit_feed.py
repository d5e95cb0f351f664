"""Every commit of every group as it is written: the tail of `__consumer_offsets`.

A coordinator reports where a group is, but not when it committed: a consumer that commits the same
offset again looks like one that is dead. The topic itself distinguishes them, on Headrace as on
Apache Kafka. Without permission to read it, `LagWatch` samples instead.
"""

from types import TracebackType
from typing import Final

from headrace.client.error import ClientError
from headrace.client.read.read_range import LogEdge, Moment
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.lag.commit_record import CommitRecord, read_commit

TOPIC: Final = "__consumer_offsets"
# How many records one call reads at most; the rest comes with the next one.
MOST_RECORDS: Final = 200_000
_IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024


class CommitFeed:
    """Reads the topic from some time on.

    Attributes:
        reading: whether the topic could be opened. Each `read` tries again: a cluster without
            groups has no such topic.
    """

    def __init__(self, settings: ClientSettings, since_ms: int) -> None:
        self._settings = settings
        self._since_ms = since_ms
        self._reader: Reader | None = None

    @property
    def reading(self) -> bool:
        return self._reader is not None

    def read(self, wait_seconds: float = 0.0) -> list[CommitRecord]:
        """Return the commits since the last call.

        Args:
            wait_seconds: how long to wait for the first of them.
        """
        commits: list[CommitRecord] = []
        try:
            reader = self._open()
            while len(commits) < MOST_RECORDS:
                chunk = reader.poll(0.0 if commits else wait_seconds)
                if chunk is None:
                    break
                columns = chunk.columns
                pairs = zip(
                    columns.column("key").to_pylist(),
                    columns.column("value").to_pylist(),
                    strict=True,
                )
                commits += [each for key, value in pairs if (each := read_commit(key, value))]
        except ClientError:
            self.close()
        return commits

    def caught_up(self, ends: dict[int, int]) -> bool:
        """Return whether everything before these ends, by partition, has been read."""
        if self._reader is None:
            return False
        at = {each.partition: offset for each, offset in self._reader.positions.items()}
        return all(at.get(index, 0) >= end for index, end in ends.items())

    def _open(self) -> Reader:
        if self._reader is None:
            self._reader = Reader.of_topics(
                self._settings,
                TOPIC,
                start=Moment(self._since_ms),
                follow=True,
                read_committed=True,
                columns=["key", "value"],
                max_bytes_in_flight=_IN_FLIGHT_BYTES,
                reset=LogEdge.EARLIEST,
            )
        return self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __enter__(self) -> "CommitFeed":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
