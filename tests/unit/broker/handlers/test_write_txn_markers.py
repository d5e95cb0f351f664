"""Markers that another broker sends: all are in their logs before the first is waited for."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.broker.coordinator.marker_writer import Marker
from headrace.broker.handlers import write_txn_markers
from headrace.model.error import NotLeader
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

A, B, GONE = (TopicPartition(name, 0) for name in ("a", "b", "gone"))


class Markers:
    """Stands for a broker: notes markers, which are safe when a test says so."""

    def __init__(self) -> None:
        self.written: list[TopicPartition] = []
        self.safe: dict[TopicPartition, asyncio.Future[None]] = {}
        self.transactions = SimpleNamespace(markers=self)
        self.guard = SimpleNamespace(may_on_cluster=lambda *_: True)

    def write(self, marker: Marker, name: TopicPartition) -> Any:
        if name == GONE:
            return None
        self.written.append(name)
        self.safe[name] = asyncio.get_running_loop().create_future()
        partition = SimpleNamespace(name=name, waits_before_answer=True)
        return SimpleNamespace(partition=partition, end=1)

    def when_safe(self, partition: Any, end: int) -> "asyncio.Future[None]":
        return self.safe[partition.name]


def request(*names: TopicPartition) -> Any:
    topics = [SimpleNamespace(name=each.topic, partition_indexes=[0]) for each in names]
    marker = SimpleNamespace(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        transaction_version=0,
        topics=topics,
    )
    return SimpleNamespace(
        connection=SimpleNamespace(is_hung_up=False),
        read=lambda _: SimpleNamespace(markers=[marker]),
    )


def codes(reply: dict[str, Any]) -> dict[str, ErrorCode]:
    [marker] = reply["markers"]
    return {each["name"]: each["partitions"][0]["error_code"] for each in marker["topics"]}


def test_a_marker_is_not_written_after_the_wait_for_another() -> None:
    async def scenario() -> None:
        broker = Markers()
        call = request(A, GONE, B)
        handling = asyncio.ensure_future(write_txn_markers.handle(broker, call))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert broker.written == [A, B]

        broker.safe[B].set_result(None)
        broker.safe[A].set_exception(NotLeader("another broker leads now"))

        assert codes(await handling) == {
            "a": ErrorCode.not_leader_or_follower,
            "gone": ErrorCode.unknown_topic_or_partition,
            "b": ErrorCode.none,
        }
        assert broker.written == [A, B]

    asyncio.run(scenario())
