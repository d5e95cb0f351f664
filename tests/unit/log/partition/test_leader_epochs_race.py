"""Leader epochs that one thread writes down while another one changes or writes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from headrace.log.filesystem import Disk
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.leader_epochs import FILE_NAME, LeaderEpochs
from headrace.model.ids import TopicPartition
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)
SCRATCH = f"{FILE_NAME}.tmp"
PATIENCE_S = 10
BRIEFLY_S = 0.2


class SlowDisk(Disk):
    """Stops the first rename of the epochs until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.arrived, self.go_on = Event(), Event()

    def replace(self, source: Path, target: Path) -> None:
        if self.slow and source.name == SCRATCH:
            self.slow = False
            self.arrived.set()
            assert self.go_on.wait(PATIENCE_S)
        super().replace(source, target)


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@contextmanager
def stopped_in(disk: SlowDisk, work: Callable[[], object]) -> Iterator[None]:
    """Run `work` in a thread, which stops before it renames the epochs until the block ends."""
    disk.slow = True
    errors: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - reported below, in the thread of the test
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        assert disk.arrived.wait(PATIENCE_S)
        yield
    finally:
        disk.go_on.set()
        thread.join()
    assert errors == []


def test_a_truncation_beside_a_flush_leaves_the_directory_online(
    disk: SlowDisk, tmp_path: Path
) -> None:
    directory = LogDirectory.open(tmp_path, filesystem=disk, background=False)
    log = directory.create(CLICKS)
    for epoch in (1, 2):
        for _ in range(5):
            log.append(sample_batch(b"v"), epoch)
    truncation = Thread(target=log.truncate_to, args=(5,))

    with stopped_in(disk, log.flush):
        truncation.start()
        truncation.join(BRIEFLY_S)
    truncation.join()

    assert directory.offline is None
    assert log.epochs.entries == ((1, 0),)
    assert LeaderEpochs(disk, log.path / FILE_NAME).entries == ((1, 0),)
    directory.close()


def test_two_that_flush_leave_the_newest_entries(disk: SlowDisk, tmp_path: Path) -> None:
    epochs = LeaderEpochs(disk, tmp_path / FILE_NAME, write_through=False)
    epochs.assign(1, 0)
    second = Thread(target=epochs.flush)

    with stopped_in(disk, epochs.flush):
        epochs.assign(2, 10)
        second.start()
        second.join(BRIEFLY_S)
        assert second.is_alive()  # what it is asked for is not durable yet
    second.join()

    assert LeaderEpochs(disk, tmp_path / FILE_NAME).entries == ((1, 0), (2, 10))


def test_one_that_flushes_what_another_writes_waits_for_it(disk: SlowDisk, tmp_path: Path) -> None:
    epochs = LeaderEpochs(disk, tmp_path / FILE_NAME, write_through=False)
    epochs.assign(1, 0)
    second = Thread(target=epochs.flush)

    with stopped_in(disk, epochs.flush):
        second.start()
        second.join(BRIEFLY_S)
        assert second.is_alive()
    second.join()

    assert LeaderEpochs(disk, tmp_path / FILE_NAME).entries == ((1, 0),)
