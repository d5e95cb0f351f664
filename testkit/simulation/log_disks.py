"""A broker's log directories with one log, on a disk in memory."""

from pathlib import Path

from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.broker.replica.log_storage import LogStorage
from headrace.cluster.topic import PartitionRecord, TopicRecord, random_topic_id
from headrace.log.file_pool import FilePool
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.clock import SystemClock
from headrace.model.ids import BrokerId, TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch, iter_batches
from headrace.testing.readiness import wait_until
from testkit.fault.crash_disk import CrashDisk
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
ME = BrokerId(0)
A, B, C = Path("/a"), Path("/b"), Path("/c")
CONFIG = LogConfig(segment_bytes=2000, file_delete_delay_ms=0)


class LogDisks:
    """Three log directories of a broker, opened again and again; the log is made in `A`."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.record = TopicRecord(
            name="clicks", topic_id=random_topic_id(), partitions=(PartitionRecord.on((ME,)),)
        )
        self.storage = self.open()
        self.storage.choose(CLICKS, self.directory(A))
        self.storage.make(self.record)
        self.log = self.log_of_clicks()
        for number in range(40):
            self.append(number)

    def open(self) -> LogStorage:
        worker = CompactionWorker(SystemClock(), memory_bytes=1 << 20, bytes_per_second=1e9)
        self.storage = LogStorage(ME, worker)
        files = FilePool(self.disk)
        for path in (A, B, C):
            self.storage.add(
                LogDirectory.open(
                    path,
                    cluster_id="t",
                    filesystem=self.disk,
                    files=files,
                    configs=lambda topic: CONFIG,
                    background=False,
                )
            )
        return self.storage

    def restart(self) -> None:
        self.storage.moves.stop()
        for directory in self.storage.directories:
            directory.close()
        self.open().set_strays_aside({"clicks": self.record})

    def directory(self, path: Path) -> LogDirectory:
        return next(each for each in self.storage.directories if each.path == path)

    def log_of_clicks(self) -> PartitionLog:
        log = self.storage.log_of(CLICKS, self.record.topic_id)
        assert log is not None
        return log

    def append(self, number: int) -> None:
        self.log.append(sample_batch(b"%06d" % number + b"x" * 100), 0)
        self.log.set_high_watermark(self.log.log_end_offset)

    def move(self, target: Path) -> bool:
        return self.storage.move(CLICKS, self.record.topic_id, self.directory(target))

    def hold(self) -> None:
        """Let copying take for ever: a few bytes per second."""
        self.storage.moves.configure(threads=1, bytes_per_second=1)

    def home(self) -> Path | None:
        return next((each.path for each in self.storage.directories if CLICKS in each), None)

    def futures(self) -> list[str]:
        return [
            f"{path.name}/{name}"
            for path in (A, B, C)
            for name in self.disk.list(path)
            if name.endswith("-future")
        ]

    def moving(self) -> bool:
        return any(self.storage.moves.of(each) for each in self.storage.directories)

    def wait(self) -> None:
        wait_until(lambda: not self.moving(), what="the end of the move")

    def copied_bytes(self, target: Path) -> int:
        return self.storage.moves.of(self.directory(target))[0].size_bytes

    def batches(self) -> list[bytes]:
        log, found = self.log_of_clicks(), []
        at = int(log.log_start_offset)
        while at < log.log_end_offset:
            piece = log.read(at, 1 << 20)
            assert piece.file is not None
            data = piece.file.pread(piece.size, piece.position)
            for batch in iter_batches(data):
                found.append(bytes(batch.buffer[batch.position : batch.end]))
                at = batch.next_offset
        return found

    def values(self) -> list[int]:
        return [Batch(data).base_offset for data in self.batches()]
