"""A configuration that changes while logs are made and opened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault

CLICKS = [TopicPartition("clicks", number) for number in range(5)]
BEFORE_MS, AFTER_MS = 1000, 2000


class Broker:
    """A directory of logs, and a setting of the broker that they all follow."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.retention_ms = BEFORE_MS
        self.asked = 0
        self.directory = self._open()

    def _open(self) -> LogDirectory:
        return LogDirectory.open(
            Path("/data"), filesystem=self.disk, background=False, configs=self._config
        )

    def _config(self, topic: str) -> LogConfig:
        self.asked += 1
        return LogConfig(retention_ms=self.retention_ms)

    def restart(self) -> None:
        self.directory.close()
        self.directory = self._open()

    def change(self) -> None:
        self.retention_ms = AFTER_MS
        self.directory.configure()

    def change_when(self, happens: Callable[[Call], bool]) -> None:
        """Change the setting in the middle of a call to the disk."""

        def change_once(call: Call) -> bool:
            if self.retention_ms == BEFORE_MS and happens(call):
                self.change()
            return False

        self.disk.inject(Fault(when=change_once, times=None))

    def followed(self, logs: list[PartitionLog]) -> set[int]:
        return {log.config.retention_ms for log in logs}


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_logs_that_are_being_made_follow_a_change(broker: Broker) -> None:
    broker.change_when(lambda call: call.name == "create" and call.path.parent.name == "clicks-2")

    broker.directory.create_all("clicks", range(5), None)

    assert broker.followed(broker.directory.open_logs()) == {AFTER_MS}
    assert len(broker.directory.open_logs()) == 5


def test_a_log_that_is_being_opened_follows_a_change(broker: Broker) -> None:
    broker.directory.create(CLICKS[0])
    broker.restart()
    broker.change_when(lambda call: "clicks-0" in str(call.path))

    assert broker.followed([broker.directory.get(CLICKS[0])]) == {AFTER_MS}


def test_a_topic_is_asked_for_once_when_nothing_changes(broker: Broker) -> None:
    broker.directory.create_all("clicks", range(5), None)
    assert broker.asked == 1


def test_only_the_topics_that_changed_are_asked_for(broker: Broker) -> None:
    clicks = broker.directory.create(CLICKS[0])
    views = broker.directory.create(TopicPartition("views", 0))
    broker.retention_ms = AFTER_MS

    broker.directory.configure("views")

    assert (broker.followed([clicks]), broker.followed([views])) == ({BEFORE_MS}, {AFTER_MS})


def test_a_log_that_comes_from_another_directory_has_the_newest_configuration(
    broker: Broker,
) -> None:
    log = broker.directory.create(CLICKS[0])
    other = Broker()
    other.change()

    other.directory.adopt(log, None)

    assert other.followed([log]) == {AFTER_MS}
