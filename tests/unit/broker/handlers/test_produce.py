"""Transactional produce requests where group commit makes them wait for the coordinator."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.broker.broker import Broker
from headrace.cluster.topic_command import TopicToCreate
from headrace.testing.local_broker import local_broker
from headrace.transactions.message import InitProducerId, InitReply
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

NONE = ErrorCode.none
GROUP_COMMIT = {"log.flush.interval.messages": "1"}


def run(data: Path, scenario: Callable[[WireClient, InitReply], None]) -> None:
    """Run a client's scenario against a broker that has the topic clicks."""

    async def main() -> None:
        async with local_broker(data, GROUP_COMMIT) as server:
            await server.broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=3)]
            )
            producer = await init(server.broker)
            address = f"127.0.0.1:{server.listeners[0].port}"

            def act() -> None:
                with WireClient(address) as client:
                    scenario(client, producer)

            await asyncio.to_thread(act)

    asyncio.run(main())


async def init(broker: Broker) -> InitReply:
    event = InitProducerId(transactional_id="t", timeout_ms=60_000)
    return await broker.transactions.init_producer_id(event)


def request(producer: InitReply, **sequences: int) -> dict[str, Any]:
    """One record for each partition, named p0, p1, ..., with its sequence."""
    return {
        "transactional_id": "t",
        "acks": -1,
        "timeout": 1000,
        "topic_data": [
            {
                "name": "clicks",
                "partition_data": [
                    {
                        "index": int(name[1:]),
                        "records": sample_batch(
                            b"v",
                            producer_id=producer.producer_id,
                            producer_epoch=producer.producer_epoch,
                            sequence=sequence,
                            transactional=True,
                        ),
                    }
                    for name, sequence in sequences.items()
                ],
            }
        ],
    }


def test_a_request_does_not_overtake_one_that_waits_for_its_partition(tmp_path: Path) -> None:
    def scenario(client: WireClient, producer: InitReply) -> None:
        requests = [
            request(producer, p0=0),
            request(producer, p0=1, p1=0),
            request(producer, p0=2),
            request(producer, p0=3, p1=1, p2=0),
            request(producer, p0=4, p2=1),
        ]
        numbers = [client.send(ApiKey.PRODUCE, 12, body) for body in requests]
        answers = [client.receive(ApiKey.PRODUCE, 12, number) for number in numbers]

        found = [
            (each.partition, each.error_code, each.base_offset)
            for answer in answers
            for each in answer.topics[0].partitions
        ]
        expected = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 1), (2, 0), (0, 4), (2, 1)]
        assert found == [(partition, NONE, offset) for partition, offset in expected]

    run(tmp_path, scenario)


def test_a_client_that_goes_away_while_it_waits_does_not_hold_up_the_next(tmp_path: Path) -> None:
    def scenario(client: WireClient, producer: InitReply) -> None:
        host, port = client._socket.getpeername()
        with WireClient(f"{host}:{port}") as gone:
            gone.send(ApiKey.PRODUCE, 12, request(producer, p0=0))
            gone.send(ApiKey.PRODUCE, 12, request(producer, p1=0))
        answer = client.ask(ApiKey.PRODUCE, 12, request(producer, p2=0))

        assert answer.topics[0].partitions[0].error_code == NONE

    run(tmp_path, scenario)


def test_a_fenced_producer_is_refused_after_waiting(tmp_path: Path) -> None:
    def scenario(client: WireClient, producer: InitReply) -> None:
        first = client.send(ApiKey.PRODUCE, 12, request(producer, p0=0))
        zombie = InitReply(
            producer_id=producer.producer_id,
            producer_epoch=type(producer.producer_epoch)(producer.producer_epoch + 1),
        )
        second = client.send(ApiKey.PRODUCE, 12, request(zombie, p1=0))

        codes = [
            client.receive(ApiKey.PRODUCE, 12, number).topics[0].partitions[0].error_code
            for number in (first, second)
        ]
        assert codes == [NONE, ErrorCode.invalid_producer_epoch]

    run(tmp_path, scenario)
