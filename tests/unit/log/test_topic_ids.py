"""Topic ids that are written for logs which were made without."""

from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

from headrace.log.filesystem import Disk
from headrace.log.log_directory import LogDirectory
from headrace.model.ids import TopicId, TopicPartition

CLICKS = TopicPartition("clicks", 0)
PATIENCE_S = 10
BRIEFLY_S = 0.2


class SlowDisk(Disk):
    """Stops the first rename of a `partition.metadata` until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived, self.go_on = Event(), Event()

    def replace(self, source: Path, target: Path) -> None:
        if target.name == "partition.metadata" and not self.arrived.is_set():
            self.arrived.set()
            assert self.go_on.wait(PATIENCE_S)
        super().replace(source, target)


def test_upkeep_beside_a_thread_that_writes_an_id_leaves_the_directory_online(
    tmp_path: Path,
) -> None:
    disk, topic_id = SlowDisk(), TopicId(uuid4())
    directory = LogDirectory.open(tmp_path, filesystem=disk, background=False)
    directory.create(CLICKS)
    writing = Thread(target=directory.set_topic_id, args=(CLICKS, topic_id))
    upkeep = Thread(target=directory.maintain)

    writing.start()
    assert disk.arrived.wait(PATIENCE_S)
    upkeep.start()
    upkeep.join(BRIEFLY_S)
    disk.go_on.set()
    writing.join()
    upkeep.join()

    assert directory.offline is None
    directory.close()
    assert LogDirectory.open(tmp_path, background=False).topic_id(CLICKS) == topic_id
