"""Topics whose records must name registered schemas, against a broker with a registry to ask."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.replica.batch_opener import OpensLater
from headrace.broker.schema import registered_schemas, schema_check
from headrace.broker.schema.schema_lookup import SchemaQuestion
from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.error import InvalidRecord, RequestTimedOut, ServiceUnavailable
from headrace.model.topic_config import SUBJECT_NAME_STRATEGIES, LogConfig
from headrace.records.batch import TRANSACTIONAL_BIT
from headrace.records.compression import Codec
from headrace.records.varint import write_varint
from headrace.testing.local_broker import local_broker
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from testkit.process.wire_client import WireClient
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch
from testkit.sample.keyed_batch import KeyedRecord, keyed_batch

VALUES = "confluent.value.schema.validation"
KEYS = "confluent.key.schema.validation"
RECORD_NAME = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
GOOD = b"\0\0\0\0\x07"
BAD = b"\0\0\0\0\x08"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch waits for as long as a busy machine needs."""
    monkeypatch.setattr(schema_check, "_PATIENCE_SECONDS", 60.0)


class Registry:
    """A `SchemaLookup` that has some heads, and can be slow or broken."""

    def __init__(self) -> None:
        self.heads = {GOOD}
        self.asked: list[tuple[str, bytes, bool, str]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.broken = False

    def knows(self, topic: str, head: bytes, *, key: bool, strategy: str) -> bool:
        found = head in self.heads
        self.asked.append((topic, head, key, strategy))
        self.answers.wait(90)
        if self.broken:
            raise ServiceUnavailable("the registry is broken")
        return found

    def close(self) -> None:
        self.answers.set()


Scenario = Callable[[WireClient, Registry, Server], None]


def run(data: Path, scenario: Scenario, *, registry: bool = True, **configs: str) -> None:
    """Run a scenario in a thread, against a broker with a topic t of these settings."""
    found = Registry()

    async def main() -> None:
        lookup = found if registry else None
        async with local_broker(data, schema_lookup=lookup) as server:
            await server.broker.controller.create_topics(
                [TopicToCreate(name="t", partitions=2, configs=configs or {VALUES: "true"})]
            )

            def act() -> None:
                with WireClient(f"127.0.0.1:{server.listeners[0].port}") as client:
                    scenario(client, found, server)

            try:
                await asyncio.to_thread(act)
            finally:
                found.answers.set()

    asyncio.run(main())


def packed(
    codec: Codec, *records: tuple[bytes | None, bytes | None], headers: bytes = b"\0"
) -> bytes:
    rows = [
        KeyedRecord(key=key, value=value, timestamp_ms=SAMPLE_TIME_MS, headers=headers)
        for key, value in records
    ]
    return keyed_batch(rows, codec=codec)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_records_that_name_no_schema_are_named_in_the_answer(tmp_path: Path, codec: Codec) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        values = [GOOD + b"x", b"plain", b"", None, GOOD[:4]]
        answer = client.produce("t", packed(codec, *((b"k", each) for each in values)))
        assert answer.error_code == ErrorCode.invalid_record
        assert [each.batch_index for each in answer.record_errors] == [1, 2, 4]
        assert "names no schema" in answer.record_errors[0].message
        assert not registry.asked
        answer = client.produce("t", packed(codec, (b"k", GOOD + b"x"), (None, None)))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)

    run(tmp_path, scenario)


def test_a_schema_is_asked_for_once_and_a_missing_one_every_time(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        mixed = sample_batch(GOOD + b"x", BAD + b"y")
        answer = client.produce("t", mixed)
        assert answer.error_code == ErrorCode.invalid_record
        assert [each.batch_index for each in answer.record_errors] == [1]
        assert "id 8" in answer.record_errors[0].message
        registry.heads.add(BAD)
        assert client.produce("t", mixed).error_code == ErrorCode.none
        assert client.produce("t", mixed).error_code == ErrorCode.none
        assert sorted(each[1] for each in registry.asked) == [GOOD, BAD, BAD]

    run(tmp_path, scenario)


def test_keys_are_checked_by_their_own_settings(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        answer = client.produce("t", sample_batch(b"any", keys=[b"plain"]))
        assert answer.error_code == ErrorCode.invalid_record
        assert "key names no schema" in answer.record_errors[0].message
        assert client.produce("t", sample_batch(b"any", keys=[GOOD])).error_code == ErrorCode.none
        assert registry.asked == [("t", GOOD, True, RECORD_NAME)]

    strategy = {"confluent.key.subject.name.strategy": RECORD_NAME}
    run(tmp_path, scenario, **{KEYS: "true", **strategy})


def test_a_header_names_the_schema_before_the_value_does(tmp_path: Path) -> None:
    guid = b"\x01" + bytes(range(16))
    name = b"__value_schema_id"
    header = write_varint(1) + write_varint(len(name)) + name + write_varint(len(guid)) + guid

    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        registry.heads = {guid}
        batch = packed(Codec.NONE, (b"k", GOOD + b"x"), headers=header)
        assert client.produce("t", batch).error_code == ErrorCode.none
        assert [each[1] for each in registry.asked] == [guid]

    run(tmp_path, scenario)


def test_a_batch_with_millions_of_headers_is_refused_at_once(tmp_path: Path) -> None:
    """60 KB of gzip; reading every header would take a minute."""

    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        headers = write_varint(20_000_000) + bytes(40_000_000)
        answer = client.produce("t", packed(Codec.GZIP, (b"k", GOOD), headers=headers))
        assert answer.error_code == ErrorCode.invalid_record
        assert "20,000,000 headers" in answer.record_errors[0].message

    run(tmp_path, scenario)


def test_many_records_are_read_where_no_other_batch_waits(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        def names() -> list[str]:
            return [each.name for each in threading.enumerate()]

        assert client.produce("t", sample_batch(*[GOOD] * 5_000)).error_code == ErrorCode.none
        assert not any(each.startswith("open-long-batch") for each in names())
        assert client.produce("t", sample_batch(*[GOOD] * 20_001)).error_code == ErrorCode.none
        assert any(each.startswith("open-long-batch") for each in names())
        many = packed(Codec.GZIP, *[(None, GOOD)] * 200_001)
        answer = client.produce("t", many)
        assert answer.error_code == ErrorCode.message_too_large
        assert "200,000 records and headers" in answer.error_message

    run(tmp_path, scenario)


def test_the_answer_names_the_first_thousand_of_the_records_that_are_wrong(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        other = b"\0\0\0\0\x09"
        answer = client.produce("t", sample_batch(*[BAD, other] * 1_000))
        assert answer.error_code == ErrorCode.invalid_record
        assert [each.batch_index for each in answer.record_errors] == list(range(1_000))
        assert "2000 records name schemas" in answer.error_message
        assert "id 9" in answer.record_errors[1].message

    run(tmp_path, scenario)


def test_a_batch_waits_for_the_registry_and_others_do_not(tmp_path: Path) -> None:
    """The batch behind it waits too; another partition, and the broker's event loop, go on."""

    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        assert client.produce("t", sample_batch(GOOD)).error_code == ErrorCode.none
        registry.heads.add(BAD)
        registry.answers.clear()
        first = client.send_produce(9, _request(sample_batch(BAD + b"1")))
        wait_until(lambda: len(registry.asked) == 2, what="the second question")
        second = client.send_produce(9, _request(sample_batch(GOOD + b"2")))
        with WireClient(f"127.0.0.1:{server.listeners[0].port}") as other:
            assert other.produce("t", sample_batch(GOOD), partition=1).error_code == ErrorCode.none
        registry.answers.set()
        answers = [client.receive(ApiKey.PRODUCE, 9, number) for number in (first, second)]
        offsets = [each.topics[0].partitions[0].base_offset for each in answers]
        assert offsets == [1, 2]

    run(tmp_path, scenario)


def test_a_broken_registry_refuses_only_what_is_not_known_and_may_be_repeated(
    tmp_path: Path,
) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        assert client.produce("t", sample_batch(GOOD)).error_code == ErrorCode.none
        registry.broken = True
        registry.heads.add(BAD)
        numbered = [
            sample_batch(BAD, producer_id=5, producer_epoch=0, sequence=0),
            sample_batch(GOOD, producer_id=5, producer_epoch=0, sequence=1),
        ]
        codes = [client.produce("t", each).error_code for each in numbered]
        # The second would leave a hole before it.
        assert codes == [ErrorCode.request_timed_out] * 2
        assert client.produce("t", sample_batch(GOOD)).error_code == ErrorCode.none
        registry.broken = False
        wait_until(
            lambda: client.produce("t", numbered[0]).error_code == ErrorCode.none,
            what="the registry is asked again",
        )
        assert client.produce("t", numbered[1]).error_code == ErrorCode.none

    run(tmp_path, scenario)


def test_a_batch_of_a_transaction_does_not_wait(tmp_path: Path) -> None:
    async def main() -> None:
        registry = Registry()
        registry.answers.clear()
        async with local_broker(tmp_path, schema_lookup=registry) as server:
            checks = server.broker.schema_checks
            config = LogConfig.parse({VALUES: "true"})
            batch = memoryview(sample_batch(GOOD, transactional=True))
            assert batch[22] & TRANSACTIONAL_BIT
            check = checks.of("t", len(batch), transactional=True)
            with pytest.raises(OpensLater) as later:
                check.check(config, batch[61:], 1, True)
            await later.value.ready()
            with pytest.raises(RequestTimedOut, match="has not said yet"):
                check.check(config, batch[61:], 1, True)
            registry.answers.set()
            assert await checks.registered.resolve([_question()], 60.0) == {_question(): True}
            checks.of("t", len(batch), transactional=True).check(config, batch[61:], 1, True)

    asyncio.run(main())


def test_a_batch_of_a_transaction_does_not_wait_behind_one_that_waits(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        with WireClient(f"127.0.0.1:{server.listeners[0].port}") as other:
            producer = _transactional_producer(other)

            def send(sequence: int) -> ErrorCode:
                batch = sample_batch(
                    GOOD,
                    transactional=True,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    sequence=sequence,
                )
                number = other.send_produce(12, _request(batch, "payments"))
                answer = other.receive(ApiKey.PRODUCE, 12, number)
                return ErrorCode(answer.topics[0].partitions[0].error_code)

            assert client.produce("t", sample_batch(GOOD)).error_code == ErrorCode.none
            assert send(0) == ErrorCode.none
            registry.heads.add(BAD)
            registry.answers.clear()
            first = client.send_produce(9, _request(sample_batch(BAD)))
            wait_until(lambda: len(registry.asked) == 2, what="the second question")
            assert send(1) == ErrorCode.request_timed_out
            registry.answers.set()
            answer = client.receive(ApiKey.PRODUCE, 9, first)
            assert answer.topics[0].partitions[0].base_offset == 2
            assert send(1) == ErrorCode.none

    run(tmp_path, scenario)


def test_a_batch_of_a_transaction_is_refused_for_good_when_the_registry_said_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered_schemas, "_NO_SECONDS", 600.0)

    async def main() -> None:
        registry = Registry()
        async with local_broker(tmp_path, schema_lookup=registry) as server:
            checks = server.broker.schema_checks
            config = LogConfig.parse({VALUES: "true"})
            batch = memoryview(sample_batch(BAD, transactional=True))

            async def attempt(*, transactional: bool = True) -> None:
                check = checks.of("t", len(batch), transactional=transactional)
                try:
                    check.check(config, batch[61:], 1, True)
                except OpensLater as later:
                    await later.ready()
                    check.check(config, batch[61:], 1, True)

            question = _question()._replace(head=BAD)
            with pytest.raises(RequestTimedOut):
                await attempt()
            await checks.registered.ask(question)
            with pytest.raises(InvalidRecord, match="register them first"):
                await attempt()
            registry.heads.add(BAD)
            await attempt(transactional=False)
            await attempt()

    asyncio.run(main())


def test_a_no_counts_for_a_while_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_schemas, "_NO_SECONDS", -1.0)

    async def main() -> None:
        registry = Registry()
        async with local_broker(tmp_path, schema_lookup=registry) as server:
            register = server.broker.schema_checks.registered
            question = _question()._replace(head=BAD)
            assert await register.ask(question) is False
            assert register.answer_now(question) is None
            await register.ask(question)
            assert len(registry.asked) == 2

    asyncio.run(main())


def test_the_fast_path_agrees_when_the_setting_changes(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        def codes() -> list[int]:
            batches = (sample_batch(b"plain"), sample_batch(GOOD), packed(Codec.ZSTD, (b"k", b"x")))
            return [client.produce("t", each).error_code for each in batches for _ in range(3)]

        good, bad = [ErrorCode.none] * 3, [ErrorCode.invalid_record] * 3
        assert codes() == good * 3
        _alter(client, "true")
        assert codes() == bad + good + bad
        _alter(client, "false")
        assert codes() == good * 3

    run(tmp_path, scenario, **{VALUES: "false"})


def test_a_topic_cannot_be_checked_without_a_registry(tmp_path: Path) -> None:
    def scenario(client: WireClient, registry: Registry, server: Server) -> None:
        answer = client.produce("t", sample_batch(GOOD))
        assert answer.error_code == ErrorCode.invalid_config
        assert "confluent.schema.registry.url" in answer.error_message

    run(tmp_path, scenario, registry=False)


def _transactional_producer(client: WireClient) -> Any:
    body = {
        "transactional_id": "payments",
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    given: list[Any] = []

    def ask() -> bool:
        given.append(client.ask(ApiKey.INIT_PRODUCER_ID, 4, body))
        return given[-1].error_code == ErrorCode.none

    wait_until(ask, what="a producer id")
    return given[-1]


def _request(batch: bytes, transactional_id: str | None = None) -> ProduceRequest:
    topic = ProduceTopic("t", None, [ProducePartition(0, memoryview(batch))])
    return ProduceRequest(transactional_id, -1, 30_000, [topic])


def _question() -> SchemaQuestion:
    return SchemaQuestion("t", GOOD, False, SUBJECT_NAME_STRATEGIES[0])


def _alter(client: WireClient, value: str) -> None:
    config = {"name": VALUES, "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    body = {"resources": [resource], "validate_only": False}
    answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
    assert answer.responses[0].error_code == ErrorCode.none
