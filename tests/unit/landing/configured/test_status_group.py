"""What is published of landings when a broker refuses some of it."""

from collections.abc import Iterable, Mapping

import pytest

from headrace.client.error import BrokerError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.landing.configured import status_group
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.status_group import StatusGroup
from headrace.landing.configured.topic_landing import TopicLanding, Totals
from headrace.model.ids import TopicPartition
from headrace.model.table.table_config import TableConfig
from headrace.model.table.table_name import TableName
from headrace.wire.error_code import ErrorCode


class Coordinator:
    """Takes the offsets of topics that are not in `refused`."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.commits: list[set[str]] = []

    def committed(self, admin: GroupAdmin, group: str) -> dict[TopicPartition, object]:
        return {}

    def commit(
        self,
        admin: GroupAdmin,
        group: str,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str],
    ) -> dict[TopicPartition, BrokerError | None]:
        self.commits.append({each.topic for each in offsets})
        error = BrokerError(ErrorCode.invalid_commit_offset_size)
        return {each: error if each.topic in self.refused else None for each in offsets}


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    found = Coordinator()
    monkeypatch.setattr(GroupAdmin, "committed", lambda *args: found.committed(*args))
    monkeypatch.setattr(GroupAdmin, "commit", lambda *args, **more: found.commit(*args, **more))
    return found


def landings(names: Iterable[str]) -> list[TopicLanding]:
    table = TableConfig(name=TableName.parse("delta:clicks"))
    return [TopicLanding(ConfiguredTopic(name, None, table, (0, 1)), Totals()) for name in names]


def publish(group: StatusGroup, names: Iterable[str]) -> None:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})) as pool:
        group.publish(pool, landings(names), 1000)


def test_what_was_refused_is_published_again(coordinator: Coordinator) -> None:
    warnings: list[str] = []
    group = StatusGroup(warnings.append)
    coordinator.refused = {"b"}
    publish(group, "ab")
    coordinator.refused = set()
    publish(group, "ab")
    publish(group, "ab")

    assert coordinator.commits == [{"a", "b"}, {"b"}]
    assert len(warnings) == 1


def test_topics_that_are_refused_keep_no_others_back(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_group, "_AT_ONCE", 2)
    group = StatusGroup(lambda _: None)
    coordinator.refused = {"a", "b"}
    publish(group, "abc")
    publish(group, "abc")

    assert coordinator.commits[0] == {"a", "b"}
    assert "c" in coordinator.commits[1]
