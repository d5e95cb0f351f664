"""The hdfs sink: events in files of a file system that pyarrow knows: local, HDFS, S3 and
others."""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import structlog

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.file.bucket_file import BucketFile, RollPolicy
from headrace.ingest.file.in_use_journal import InUseFile, InUseJournal
from headrace.ingest.format.path_escape import PathEscape
from headrace.ingest.format.sequence_file import SequenceFileSerializer
from headrace.ingest.format.serializer import Serializer
from headrace.ingest.format.serializer_choice import make_serializer
from headrace.ingest.settings import Settings, flag, number, prefix, refused, text
from headrace.ingest.sink import Sink
from headrace.storage.storage_folder import StorageFolder, open_folder

_log = structlog.get_logger(__name__)
# Numbers of files, as Flume has them. All sinks share the count: two sinks that write to one folder
# must not use the same name.
_NUMBERS = count(time.time_ns() // 1_000_000)
_CODECS = {
    "gzip": ("gzip", ".gz"),
    "gzipcodec": ("gzip", ".gz"),
    "bzip2": ("bz2", ".bz2"),
    "bzip2codec": ("bz2", ".bz2"),
    "lz4": ("lz4", ".lz4"),
    "zstd": ("zstd", ".zst"),
}
_HADOOP_ONLY = (
    "callTimeout",
    "closeTries",
    "minBlockReplicas",
    "retryInterval",
    "rollTimerPoolSize",
    "threadsPoolSize",
)
_NO_KERBEROS = "log in with kinit before the agent starts"
_TYPES = ("SequenceFile", "DataStream", "CompressedStream", "Parquet")


class HdfsSink(Sink):
    """Writes to a file per bucket of headers and time, and rolls files by time, size and count.

    Events leave the channel when they are flushed to their files.

    Crash: open files keep their in-use names, with all events that left the channel. Part of the
    last batch may be in them; it is repeated. With `hdfs.recoveryFile` the next start renames them.
    """

    BATCH_SETTING = "hdfs.batchSize"
    SETTINGS = (
        text("hdfs.path", "A directory: a path or a URI, with escapes.", required=True),
        text("hdfs.filePrefix", "The beginning of file names, with escapes.", "FlumeData"),
        text("hdfs.fileSuffix", "The end of file names.", ""),
        text("hdfs.inUsePrefix", "The beginning while a file is written.", ""),
        text("hdfs.inUseSuffix", "The end while a file is written.", ".tmp"),
        flag("hdfs.emptyInUseSuffix", "Use no such suffix.", False),
        text("hdfs.recoveryFile", "A journal of open files, to rename them after a crash."),
        number("hdfs.rollInterval", "Seconds until a new file; 0 is never.", 30),
        number("hdfs.rollSize", "Bytes until a new file; 0 is never.", 1024),
        number("hdfs.rollCount", "Events until a new file; 0 is never.", 10),
        number("hdfs.idleTimeout", "Seconds until an unchanged file is closed.", 0),
        number("hdfs.batchSize", "Events per batch.", 100, minimum=1),
        text("hdfs.fileType", "The format of files.", "SequenceFile", choices=_TYPES),
        text(
            "hdfs.writeFormat",
            "Values of a SequenceFile.",
            "Writable",
            choices=("Writable", "Text"),
        ),
        text("hdfs.codeC", "gzip, bzip2, lz4 or zstd, for CompressedStream."),
        number(
            "hdfs.maxOpenFiles", "The most open files; the oldest is closed first.", 5000, minimum=1
        ),
        flag("hdfs.round", "Round times down.", False),
        number("hdfs.roundValue", "To a multiple of so many units.", 1, minimum=1),
        text("hdfs.roundUnit", "The unit.", "second", choices=("second", "minute", "hour")),
        text("hdfs.timeZone", "The time zone of the escapes.", "Local Time"),
        flag("hdfs.useLocalTimeStamp", "Use the time of writing instead of a header.", False),
        text(
            "serializer",
            "text, header_and_text, avro_event or Flume's AvroEventSerializer.",
            "TEXT",
        ),
        prefix("serializer", "Its parameters."),
        *(text(f"hdfs.{word}", "Ignored.") for word in _HADOOP_ONLY),
        *(
            refused(f"hdfs.{word}", _NO_KERBEROS)
            for word in ("kerberosKeytab", "kerberosPrincipal")
        ),
        refused("hdfs.proxyUser", "start the agent as that user, or set HADOOP_USER_NAME"),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        zone = _zone(settings)
        value = settings.number("hdfs.roundValue") if settings.flag("hdfs.round") else 0

        def escape(key: str) -> PathEscape:
            return PathEscape(
                settings.text(key).rstrip("/"),
                zone=zone,
                local_time=settings.flag("hdfs.useLocalTimeStamp"),
                round_value=value,
                round_unit=settings.text("hdfs.roundUnit"),
            )

        self._folder, self._prefix = escape("hdfs.path"), escape("hdfs.filePrefix")
        self._policy = RollPolicy(
            settings.number("hdfs.rollInterval"),
            settings.number("hdfs.rollSize"),
            settings.number("hdfs.rollCount"),
            settings.number("hdfs.idleTimeout"),
        )
        self._new_serializer = _serializer(settings)
        self._codec, self._codec_suffix = _codec(settings)
        self._open: dict[str, BucketFile] = {}
        self._journaled: dict[str, InUseFile] = {}
        journal = settings.optional("hdfs.recoveryFile")
        self._journal = InUseJournal(Path(journal).expanduser()) if journal else None

    def start(self) -> None:
        """Rename the files that a crash left open.

        Raises:
            OSError: their file system cannot be reached; the agent retries the start.
        """
        if self._journal is None:
            return
        for left in self._journal.load():
            storage = open_folder(left.folder)
            if storage.has(left.in_use):
                storage.filesystem.move(storage.path(left.in_use), storage.path(left.name))
                _log.info("file_recovered", sink=self.name, folder=left.folder, name=left.name)
            self._journal.remove(left)

    def stop(self) -> None:
        for bucket in list(self._open):
            self._close(bucket)

    def idle(self) -> None:
        for bucket, file in list(self._open.items()):
            if file.is_due(self._policy):
                self._close(bucket)

    def deliver(self, batch: EventBatch) -> None:
        for bucket, part in self._by_bucket(batch).items():
            try:
                file = self._open.get(bucket) or self._new_file(bucket)
                file.write(part)
                if file.is_full(self._policy):
                    self._close(bucket)
            except (OSError, pa.ArrowException) as error:
                broken = self._open.pop(bucket, None)
                if broken is not None and broken.abandon():
                    self._forget(bucket)
                raise DeliveryFailed(f"cannot write to {bucket}: {error}") from error
        self.idle()

    def _by_bucket(self, batch: EventBatch) -> dict[str, EventBatch]:
        """Return the events by bucket: the folder and the prefix of the file name."""

        def bucket_of(headers: dict[str, str]) -> str:
            return f"{self._folder.fill(headers)}/{self._prefix.fill(headers)}"

        shared = batch.same_headers
        if shared is not None or (self._folder.is_plain and self._prefix.is_plain):
            return {bucket_of(batch.headers[0]): batch}
        rows: dict[str, list[int]] = {}
        for row, headers in enumerate(batch.headers):
            rows.setdefault(bucket_of(headers), []).append(row)
        return {bucket: batch.pick(chosen) for bucket, chosen in rows.items()}

    def _new_file(self, bucket: str) -> BucketFile:
        if len(self._open) >= self.settings.number("hdfs.maxOpenFiles"):
            self._close(next(iter(self._open)))
        folder, _, start = bucket.rpartition("/")
        storage = open_folder(folder)
        name, hidden = self._free_name(storage, start)
        if self._journal is not None and not storage.closes_whole:
            self._journaled[bucket] = InUseFile(folder, hidden, name)
            self._journal.add(self._journaled[bucket])
        file = BucketFile(
            storage,
            storage.path(name),
            storage.path(hidden),
            self._new_serializer,
            self._codec,
        )
        self._open[bucket] = file
        self.counters.add("ConnectionCreatedCount")
        return file

    def _free_name(self, storage: StorageFolder, start: str) -> tuple[str, str]:
        """Return an unused file name, and its in-use name. Another process may have begun to count
        in the same millisecond, so the name is checked."""
        text = self.settings.text
        suffix = "" if self.settings.flag("hdfs.emptyInUseSuffix") else text("hdfs.inUseSuffix")
        while True:
            name = f"{start}.{next(_NUMBERS)}{text('hdfs.fileSuffix')}{self._codec_suffix}"
            hidden = f"{text('hdfs.inUsePrefix')}{name}{suffix}"
            if not storage.has(name) and not storage.has(hidden):
                return name, hidden

    def _close(self, bucket: str) -> None:
        self._open.pop(bucket).close()
        self._forget(bucket)
        self.counters.add("ConnectionClosedCount")

    def _forget(self, bucket: str) -> None:
        file = self._journaled.pop(bucket, None)
        if file is not None and self._journal is not None:
            self._journal.remove(file)


def _zone(settings: Settings) -> ZoneInfo | None:
    written = settings.text("hdfs.timeZone")
    if written.lower() in ("local time", "local"):
        return None
    try:
        return ZoneInfo(written)
    except (ZoneInfoNotFoundError, ValueError):
        raise settings.wrong("hdfs.timeZone", f"there is no time zone {written!r}") from None


def _serializer(settings: Settings) -> Callable[[], Serializer] | None:
    kind = settings.text("hdfs.fileType")
    if kind == "Parquet":
        return None
    if kind == "SequenceFile":
        as_text = settings.text("hdfs.writeFormat") == "Text"
        return lambda: SequenceFileSerializer(as_text=as_text)
    return make_serializer(settings, "serializer", settings.below("serializer"))


def _codec(settings: Settings) -> tuple[str | None, str]:
    if settings.text("hdfs.fileType") != "CompressedStream":
        return None, ""
    written = settings.optional("hdfs.codeC") or ""
    codec = _CODECS.get(simple_name(written).lower())
    if codec is None:
        raise settings.wrong(
            "hdfs.codeC", f"hdfs.codeC is {written!r}: write gzip, bzip2, lz4 or zstd"
        )
    return codec
