"""A broker that asks a real schema registry before it appends."""

from pathlib import Path

from headrace.records.batch import Batch
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.registry_client import call
from testkit.process.registry_process import RegistryProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

RECORD = '{"type":"record","name":"R","fields":[{"name":"x","type":"string"}]}'
STRATEGY = "confluent.value.subject.name.strategy"
RECORD_NAME = "io.confluent.kafka.serializers.subject.RecordNameStrategy"


def test_only_records_with_registered_schemas_are_appended(
    tmp_path: Path, broker: BrokerProcess, topic: str
) -> None:
    own = ("--topic", f"_schemas-{topic}", "--group", f"registry-{topic}")
    with RegistryProcess(tmp_path / "registry", broker.address, *own) as registry:
        other = register(registry.url, "other-value", RECORD.replace('"R"', '"S"'))
        settings = {"confluent.schema.registry.url": registry.url}
        with (
            BrokerProcess(tmp_path / "broker", settings) as checking,
            WireClient(checking.address) as client,
        ):
            create(client, "orders", {})
            create(client, "named", {STRATEGY: RECORD_NAME})
            assert settled(client, "orders", other) == ErrorCode.invalid_record
            assert settled(client, "orders", 4_000_000) == ErrorCode.invalid_record
            known = register(registry.url, "orders-value", RECORD)
            assert accepted(client, "orders", known)
            assert settled(client, "named", known) == ErrorCode.invalid_record
            assert register(registry.url, "R", RECORD) == known
            assert accepted(client, "named", known)
            registry.stop()
            assert produce(client, "orders", known) == ErrorCode.none
            assert produce(client, "orders", known + 1000) == ErrorCode.request_timed_out


def register(url: str, subject: str, schema: str) -> int:
    status, answer = call(url, "POST", f"/subjects/{subject}/versions", {"schema": schema})
    assert status == 200, answer
    return int(answer["id"])


def create(client: WireClient, topic: str, configs: dict[str, str]) -> None:
    texts = {"confluent.value.schema.validation": "true", **configs}
    new_topic = {
        "name": topic,
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": name, "value": value} for name, value in texts.items()],
    }
    answer = client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [new_topic], "timeout": 10_000})
    assert answer.topics[0].error_code == ErrorCode.none


def produce(client: WireClient, topic: str, schema_id: int) -> ErrorCode:
    """Send a batch, plain and compressed; return the code."""
    batch = sample_batch(b"\0" + schema_id.to_bytes(4, "big") + b"\2x")
    packed = recompressed(Batch(batch), Codec.ZSTD, None, max_inflated_bytes=2**20)
    codes = {client.produce(topic, each).error_code for each in (batch, bytes(packed.data))}
    assert len(codes) == 1 or ErrorCode.request_timed_out in codes, codes
    return ErrorCode(max(codes))


def settled(client: WireClient, topic: str, schema_id: int) -> ErrorCode:
    """Send a batch until the registry has answered in time; return the code."""
    codes: list[ErrorCode] = []

    def answered() -> bool:
        codes.append(produce(client, topic, schema_id))
        return codes[-1] != ErrorCode.request_timed_out

    wait_until(answered, what="an answer of the registry")
    return codes[-1]


def accepted(client: WireClient, topic: str, schema_id: int) -> bool:
    """Wait until a batch is taken: on a busy machine the registry may answer late."""
    wait_until(
        lambda: produce(client, topic, schema_id) == ErrorCode.none, what="the schema is known"
    )
    return True
