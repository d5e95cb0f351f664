"""The file_roll sink: events in files of a directory, with a new file at intervals."""

import time
from io import FileIO
from pathlib import Path

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.format.serializer import Serializer
from headrace.ingest.format.serializer_choice import make_serializer
from headrace.ingest.settings import Settings, number, prefix, text
from headrace.ingest.sink import Sink


class FileRollSink(Sink):
    """Writes whole batches: when the disk refuses one, the file is truncated to the batch before
    it.

    Crash: after kill -9 a file may end with part of a batch, which is repeated in the next file."""

    SETTINGS = (
        text("sink.directory", "Where the files go.", required=True),
        number("sink.rollInterval", "Seconds until a new file; 0 is never.", 30),
        text(
            "sink.serializer",
            "text, header_and_text, avro_event or Flume's AvroEventSerializer.",
            "TEXT",
        ),
        prefix("sink.serializer", "Its parameters."),
        text("sink.pathManager", "Ignored: names are those of DEFAULT.", "DEFAULT"),
        text("sink.pathManager.extension", "The end of their names."),
        text("sink.pathManager.prefix", "The beginning of their names.", ""),
        number("sink.batchSize", "Events per batch.", 100, minimum=1, other_names=("batchSize",)),
    )
    BATCH_SETTING = "sink.batchSize"

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._folder = Path(settings.text("sink.directory")).expanduser()
        self._interval = settings.number("sink.rollInterval")
        parameters = settings.below("sink.serializer")
        self._new_serializer = make_serializer(settings, "sink.serializer", parameters)
        self._serializer: Serializer | None = None
        self._file: FileIO | None = None
        self._size = 0
        self._started_ms = 0
        self._count = 0
        self._opened_at = 0.0

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._started_ms = time.time_ns() // 1_000_000
        self._count = 0

    def stop(self) -> None:
        self._close()

    def idle(self) -> None:
        self._roll_if_due()

    def deliver(self, batch: EventBatch) -> None:
        self._roll_if_due()
        try:
            file, serializer = self._open()
            data = serializer.encode(batch)
            _write_all(file, data)
        except OSError as error:
            self._truncate()
            raise DeliveryFailed(f"cannot write below {self._folder}: {error.strerror}") from error
        self._size += len(data)

    def _roll_if_due(self) -> None:
        due = self._interval and time.monotonic() - self._opened_at >= self._interval
        if self._file is not None and due:
            self._close()

    def _open(self) -> tuple[FileIO, Serializer]:
        if self._file is None or self._serializer is None:
            self._serializer = self._new_serializer()
            self._count += 1
            extension = self.settings.optional("sink.pathManager.extension")
            name = (
                f"{self.settings.text('sink.pathManager.prefix')}{self._started_ms}-{self._count}"
            )
            path = self._folder / (f"{name}.{extension}" if extension else name)
            self._file = path.open("xb", buffering=0)
            self._size = 0
            self._opened_at = time.monotonic()
            head = self._serializer.head()
            _write_all(self._file, head)
            self._size = len(head)
        return self._file, self._serializer

    def _truncate(self) -> None:
        """Remove a partly written batch, and close the file: the serializer's state is ahead of
        it."""
        if self._file is not None:
            try:
                self._file.truncate(self._size)
            finally:
                self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = self._serializer = None


def _write_all(file: FileIO, data: bytes) -> None:
    """Write all of it: a disk that is nearly full takes what fits, says how much that was, and
    fails only the next write."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) or 0 :]
