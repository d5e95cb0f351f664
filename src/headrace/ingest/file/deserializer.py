"""Deserializers read the events of a file: lines, or a file as a whole."""

from abc import ABC, abstractmethod
from pathlib import Path

from headrace.ingest.event import EMPTY, EventBatch
from headrace.ingest.file.line_file import read_bytes_for, read_lines


class Deserializer(ABC):
    """Reads one file.

    To implement: `read`, `seek`.

    Attributes:
        position: after the last event that was read; 0 is the start. Its unit is the
            deserializer's own.
        delivered: the position after the last event that reached the channel.
    """

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")
        self.position = 0
        self.delivered = 0

    @abstractmethod
    def read(self, limit: int) -> EventBatch:
        """Read up to `limit` events; none at the end of the file."""

    def seek(self, position: int) -> None:
        """Continue after the event that ended at this position."""
        self.position = position

    def close(self) -> None:
        self.file.close()


class LineDeserializer(Deserializer):
    """Reads lines; one longer than `maxLineLength` is split."""

    def __init__(self, path: Path, longest: int) -> None:
        super().__init__(path)
        self._longest = longest

    def read(self, limit: int) -> EventBatch:
        lines = read_lines(
            self.file.fileno(),
            self.position,
            read_bytes=read_bytes_for(limit),
            longest=self._longest,
            unfinished=True,
        )
        bodies = lines.bodies
        if len(bodies) > limit:
            bodies = bodies[:limit]
            self.position += sum(map(len, bodies)) + limit
        else:
            self.position = lines.end
        return EventBatch.plain(bodies)


class BlobDeserializer(Deserializer):
    """Reads the whole file as one event; a file above `maxBlobLength` becomes several."""

    def __init__(self, path: Path, longest: int) -> None:
        super().__init__(path)
        self._longest = longest

    def read(self, limit: int) -> EventBatch:
        self.file.seek(self.position)
        body = self.file.read(self._longest)
        self.position += len(body)
        return EventBatch.plain([body]) if body else EMPTY
