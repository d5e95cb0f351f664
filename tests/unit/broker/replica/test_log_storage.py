"""Deleting logs, also when another file of their directory is damaged."""

from pathlib import Path

from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.broker.replica.log_storage import LogStorage
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import SystemClock
from headrace.model.ids import TopicPartition

CLICKS = TopicPartition("clicks", 0)


def test_a_damaged_cleaner_checkpoint_does_not_fail_a_deletion(tmp_path: Path) -> None:
    """A start deletes stray logs: it must not fail for what only compaction needs."""
    directory = LogDirectory.open(tmp_path, cluster_id="test", background=False)
    directory.create(CLICKS)
    (tmp_path / "cleaner-offset-checkpoint").write_text("garbage")
    worker = CompactionWorker(SystemClock(), memory_bytes=1 << 20, bytes_per_second=1e9)
    storage = LogStorage(0, worker)
    storage.add(directory)

    storage.delete([CLICKS])

    assert storage.directory_of(CLICKS) is None
