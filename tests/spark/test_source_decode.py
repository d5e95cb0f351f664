"""Values decoded by the source, of a topic as it comes: compressed batches, an aborted transaction,
tombstones and values that are no JSON, read with a login."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import DataFrame, Row, SparkSession

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.testing.quick_settings import QUICK_SETTINGS
from testkit.process.broker_process import BrokerProcess

COLUMNS = "page STRING, ms INT"
BAD = [b"no json", b'{"ms":"five"}', b"\xff\xfe"]
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [{"name": "page", "type": "string"}, {"name": "ms", "type": "int"}],
    }
)


class Site(NamedTuple):
    """A broker with two listeners: one without a login, to write, and one with, to read."""

    plain: str
    login: dict[str, str]

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.plain, **settings})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("decode")
    users = folder / "users"
    users.write_text("reader=correct-horse\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
    }
    with BrokerProcess(folder / "broker", settings) as broker:
        found = re.search(r"listens on (\S+), (\S+)", broker.log)
        assert found is not None
        login = {
            "kafka.bootstrap.servers": found[2],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "reader",
            "kafka.sasl.password": "correct-horse",
        }
        yield Site(found[1], login)


def click(number: int) -> bytes:
    return json.dumps({"ms": number, "page": f"/{number}", "more": [number]}).encode()


@pytest.fixture
def clicks(site: Site, topic: str) -> str:
    """A topic of one partition: clicks 0 to 5, of which 2 and 3 were aborted, bad values and a
    tombstone between them, each kind of batch compressed in another way."""
    admin = AdminClient({"bootstrap.servers": site.plain})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    write(site.producer(**{"compression.type": "zstd"}), topic, click(0), BAD[0], click(1))
    aborted = site.producer(**{"transactional.id": f"{topic}-writer", "compression.type": "lz4"})
    aborted.init_transactions(60)
    aborted.begin_transaction()
    write(aborted, topic, click(2), b"aborted and no json", click(3))
    aborted.abort_transaction(60)
    aborted.begin_transaction()
    write(aborted, topic, BAD[1], click(4))
    aborted.commit_transaction(60)
    write(site.producer(**{"compression.type": "gzip"}), topic, None, BAD[2], click(5))
    return topic


def write(producer: Producer, topic: str, *values: bytes | None) -> None:
    for value in values:
        producer.produce(topic, value, "k")
    assert producer.flush(60) == 0


def read(spark: SparkSession, site: Site, topic: str, **options: str) -> DataFrame:
    given = {"valueFormat": "json", "valueSchema": COLUMNS, **options}
    return spark.read.format("headrace").options(**site.login, subscribe=topic, **given).load()


GOOD = [Row(page=f"/{each}", ms=each) for each in (0, 1, 4, 5)]


def test_malformed_values_are_left_out(spark: SparkSession, site: Site, clicks: str) -> None:
    rows = read(spark, site, clicks, valueMode="DROPMALFORMED").orderBy("offset")

    found = [row.value for row in rows.collect()]

    # The null is the tombstone, which is no malformed value.
    assert found == [*GOOD[:3], None, GOOD[3]]


def test_corrupt_values_have_a_column(spark: SparkSession, site: Site, clicks: str) -> None:
    corrupt = "_corrupt_record"
    rows = read(spark, site, clicks, columnNameOfCorruptRecord=corrupt).orderBy("offset")

    found = rows.collect()

    assert rows.schema[corrupt].dataType.simpleString() == "binary"
    assert [row.value for row in found if row[corrupt] is None] == [*GOOD[:3], None, GOOD[3]]
    assert [bytes(row[corrupt]) for row in found if row[corrupt] is not None] == BAD


def test_only_the_fields_of_a_schema_are_decoded(
    spark: SparkSession, site: Site, clicks: str
) -> None:
    reader = spark.read.format("headrace").schema("value STRUCT<page: STRING>, bad BINARY")
    options = {"valueFormat": "json", "valueSchema": COLUMNS, "columnNameOfCorruptRecord": "bad"}

    rows = reader.options(**site.login, **options, subscribe=clicks).load().collect()

    # What stands in fields that are not asked for is not looked at.
    assert [bytes(row.bad) for row in rows if row.bad is not None] == [BAD[0], BAD[2]]
    assert [row.value.page for row in rows if row.value] == ["/0", "/1", None, "/4", "/5"]


def test_a_stream_decodes_as_a_batch_does(
    spark: SparkSession, site: Site, clicks: str, tmp_path: Path
) -> None:
    options = {
        "valueFormat": "json",
        "valueSchema": COLUMNS,
        "valueMode": "DROPMALFORMED",
        "startingOffsets": "earliest",
    }
    stream = spark.readStream.format("headrace").options(
        **site.login, **options, subscribe=clicks, maxOffsetsPerTrigger="4"
    )
    seen: list[Row] = []

    def take(batch: DataFrame, number: int) -> None:
        rows = batch.where("value IS NOT NULL").orderBy("offset").select("value.*")
        seen.extend(rows.collect())

    query = (
        stream.load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert seen == GOOD


@pytest.fixture(scope="module")
def registry_url(site: Site) -> Iterator[str]:
    settings = RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": site.plain}),
        listen=Address("127.0.0.1", 0),
        topic="_schemas-decode",
        group="decode-registry",
    )
    with RegistryServer(settings) as server:
        yield server.url


def test_framed_avro_has_the_same_choices(
    spark: SparkSession, site: Site, registry_url: str, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE, [])
    with SchemaRegistryClient({"url": registry_url}) as registry:
        serialize = AvroSerializer(registry, AVRO)
        values = [serialize({"page": f"/{each}", "ms": each}, context) for each in range(3)]
    cut, unknown = values[0][:6], b"\0\0\1\0\0" + values[0][5:]
    write(
        site.producer(**{"compression.type": "snappy"}),
        *(topic, values[0], cut, None, values[1], unknown, values[2]),
    )
    options = {
        **site.login,
        "subscribe": topic,
        "valueFormat": "avro",
        "schema.registry.url": registry_url,
    }

    dropped = spark.read.format("headrace").options(**options, valueMode="DROPMALFORMED").load()
    narrow = spark.read.format("headrace").schema("value STRUCT<ms: INT>, bad BINARY")
    marked = narrow.options(**options, columnNameOfCorruptRecord="bad").load()

    assert [row.value and row.value.page for row in dropped.collect()] == ["/0", None, "/1", "/2"]
    rows = marked.collect()
    assert [row.value and row.value.ms for row in rows] == [0, None, None, 1, None, 2]
    assert [bytes(row.bad) for row in rows if row.bad is not None] == [cut, unknown]
