"""What a partition says about the room on its disk."""

import errno
from pathlib import Path

import pytest

from headrace.broker.replica.partition import Partition
from headrace.log.log_directory import LogDirectory
from headrace.model.error import DiskFull
from headrace.model.ids import LeaderEpoch, TopicPartition
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Fault
from testkit.sample.batch import sample_batch

CLICKS = TopicPartition("clicks", 0)


def test_a_disk_with_room_again_is_noticed_by_the_next_append_of_either_kind() -> None:
    disk = CrashDisk()
    folder = LogDirectory.open(Path("/data"), filesystem=disk, background=False)
    partition = Partition(CLICKS, folder.create(CLICKS), LeaderEpoch(0))
    batch = memoryview(sample_batch(b"v"))

    for append in (partition.append, partition.append_plain):
        full = disk.inject(Fault(errno.ENOSPC, lambda call: call.name == "pwritev", times=None))
        with pytest.raises(DiskFull):
            partition.append(batch, acks_all=True)
        assert partition.no_room
        disk.faults.remove(full)

        assert append(batch, acks_all=True) is not None
        assert not partition.no_room
