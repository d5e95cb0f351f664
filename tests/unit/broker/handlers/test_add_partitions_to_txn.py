"""A mirror joins no transaction of this cluster: its source's producers may have the same ids."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.broker.broker import Broker
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker
from headrace.transactions.listing import TransactionDescription
from headrace.transactions.message import EndTransaction, InitProducerId, InitReply
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch


def batch(producer: InitReply) -> bytes:
    return sample_batch(
        b"v",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        sequence=0,
        transactional=True,
    )


def add(client: WireClient, producer: InitReply, *topics: str) -> dict[str, ErrorCode]:
    """Add partition 0 of topics, as a client before KIP-890 does."""
    body = {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer_epoch,
        "v3_and_below_topics": [{"name": each, "partitions": [0]} for each in topics],
    }
    answer = client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, body)
    return {
        each.name: ErrorCode(each.results_by_partition[0].partition_error_code)
        for each in answer.results_by_topic_v3_and_below
    }


def produce(client: WireClient, producer: InitReply, *topics: str) -> dict[str, ErrorCode]:
    """Write one record to partition 0 of topics, which joins them (KIP-890)."""
    data = [
        {"name": each, "partition_data": [{"index": 0, "records": batch(producer)}]}
        for each in topics
    ]
    body = {"transactional_id": "t", "acks": -1, "timeout": 1000, "topic_data": data}
    answer: Any = client.ask(ApiKey.PRODUCE, 12, body)
    return {each.name: ErrorCode(each.partitions[0].error_code) for each in answer.topics}


async def with_mirror(broker: Broker) -> InitReply:
    """Make a topic, and a mirror where a producer of the source, with the ids of the returned one,
    has a transaction open."""
    mirror = TopicToCreate(name="mirror", configs={"headrace.mirror.link": "east"})
    await broker.controller.create_topics([TopicToCreate(name="clicks"), mirror])
    event = InitProducerId(transactional_id="t", timeout_ms=60_000)
    producer = await broker.transactions.init_producer_id(event)
    partition = broker.topics.find("mirror", None, 0)
    assert partition is not None
    partition.append_mirrored(memoryview(bytearray(batch(producer))))
    assert partition.log.has_open_transaction(producer.producer_id, producer.producer_epoch)
    return producer


def run(data: Path, act: Callable[[WireClient, InitReply], None], version: int) -> None:
    """Run requests of a client, and see that its transaction, in clicks alone, can be aborted."""

    async def main() -> None:
        async with local_broker(data) as server:
            broker = server.broker
            producer = await with_mirror(broker)

            def call() -> None:
                with WireClient(f"127.0.0.1:{server.listeners[0].port}") as client:
                    act(client, producer)

            await asyncio.to_thread(call)
            open_one = broker.transactions.describe("t")
            assert isinstance(open_one, TransactionDescription)
            assert set(open_one.partitions) == {TopicPartition("clicks", 0)}
            await broker.transactions.end_transaction(
                EndTransaction(
                    transactional_id="t",
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    commit=False,
                    client_version=version,
                )
            )
            async with asyncio.timeout(60):
                while _state(broker) != "CompleteAbort":
                    await asyncio.sleep(0.001)

    asyncio.run(main())


def _state(broker: Broker) -> str:
    found = broker.transactions.describe("t")
    assert isinstance(found, TransactionDescription)
    return found.state


def test_a_mirror_is_not_added_to_a_transaction(tmp_path: Path) -> None:
    def act(client: WireClient, producer: InitReply) -> None:
        assert add(client, producer, "clicks", "mirror") == {
            "clicks": ErrorCode.operation_not_attempted,
            "mirror": ErrorCode.policy_violation,
        }
        assert add(client, producer, "clicks") == {"clicks": ErrorCode.none}

    run(tmp_path, act, version=0)


def test_records_for_a_mirror_do_not_add_it_to_their_transaction(tmp_path: Path) -> None:
    def act(client: WireClient, producer: InitReply) -> None:
        assert produce(client, producer, "clicks", "mirror") == {
            "clicks": ErrorCode.none,
            "mirror": ErrorCode.policy_violation,
        }

    run(tmp_path, act, version=2)


def test_another_broker_cannot_add_a_mirror_but_may_ask(tmp_path: Path) -> None:
    def act(client: WireClient, producer: InitReply) -> None:
        assert add(client, producer, "clicks") == {"clicks": ErrorCode.none}
        codes = []
        for verify_only in (False, True):
            wanted = {
                "transactional_id": "t",
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "verify_only": verify_only,
                "topics": [{"name": "mirror", "partitions": [0]}],
            }
            body = {"transactions": [wanted]}
            answer = client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, body)
            [topic] = answer.results_by_transaction[0].topic_results
            codes.append(ErrorCode(topic.results_by_partition[0].partition_error_code))
        assert codes == [ErrorCode.policy_violation, ErrorCode.transaction_abortable]

    run(tmp_path, act, version=0)
