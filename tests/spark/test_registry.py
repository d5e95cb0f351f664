"""Values with schemas of a registry, on a real Spark session, broker and registry."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.flow.sql.catalog import Catalog
from headrace.flow.sql.engine import Engine
from headrace.flow.sql.parser import parse
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.spark import (
    from_avro,
    from_json_schema,
    from_protobuf,
    to_avro,
    to_json_schema,
    to_protobuf,
)
from headrace.spark.data_source import HeadraceDataSource
from testkit.process.broker_process import BrokerProcess


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Click", "fields": list(fields)})


OLD = record({"name": "page", "type": "string"})
NEW = record(
    {"name": "page", "type": "string"}, {"name": "ms", "type": ["null", "long"], "default": None}
)


@pytest.fixture(scope="module")
def url(broker: BrokerProcess) -> Iterator[str]:
    settings = RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        topic="_schemas-spark",
        group="spark-registry",
    )
    with RegistryServer(settings) as server:
        yield server.url


class Clicks:
    """A topic with values of two schema versions, and one that is no value."""

    def __init__(self, broker: BrokerProcess, url: str, topic: str) -> None:
        self.address, self.url, self.topic = broker.address, url, topic
        admin = AdminClient({"bootstrap.servers": broker.address})
        for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
            created.result(60)
        context = SerializationContext(topic, MessageField.VALUE, [])
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
        with SchemaRegistryClient({"url": url}) as registry:
            old, new = AvroSerializer(registry, OLD), AvroSerializer(registry, NEW)
            producer.produce(topic, old({"page": "/"}, context), "a")
            producer.produce(topic, new({"page": "/cart", "ms": 7}, context), "b")
        producer.produce(topic, b"\0\0\0\0\1bad", "c")
        producer.produce(topic, b"{}", "d")
        producer.produce(topic, None, "e")
        assert producer.flush(60) == 0

    def options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address, "schema.registry.url": self.url, **more}

    def values(self, topic: str, count: int) -> list[Any]:
        """Return values of a topic as confluent-kafka's deserializer reads them."""
        context = SerializationContext(topic, MessageField.VALUE, [])
        return [self._deserialized(each.value(), context) for each in self.records(topic, count)]

    def records(self, topic: str, count: int) -> list[Any]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": f"{topic}-check",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe([topic])
            return consumer.consume(count, 120)
        finally:
            consumer.close()

    def _deserialized(self, value: bytes, context: SerializationContext) -> Any:
        with SchemaRegistryClient({"url": self.url}) as registry:
            return AvroDeserializer(registry)(value, context)


@pytest.fixture
def clicks(broker: BrokerProcess, spark: SparkSession, url: str, topic: str) -> Clicks:
    spark.dataSource.register(HeadraceDataSource)
    return Clicks(broker, url, topic)


@pytest.mark.timeout(600)
def test_two_versions_are_read_and_bad_values_are_dead_letters(
    clicks: Clicks, spark: SparkSession
) -> None:
    login = {"schema.registry.basic.auth.user.info": "me:hidden"}
    read = spark.read.format("headrace").options(
        **clicks.options(subscribe=clicks.topic, valueFormat="avro", **login)
    )

    frame = read.load().orderBy("offset").select("value")
    rows = frame.collect()
    plan = frame._jdf.queryExecution().toString()
    kept = read.option("deadLetterTopic", f"{clicks.topic}-dead").load().select("offset").collect()
    letters = clicks.records(f"{clicks.topic}-dead", 2)

    assert [None if each.value is None else tuple(each.value) for each in rows] == [
        ("/", None),
        ("/cart", 7),
        None,
        None,
        None,
    ]
    assert "headrace" in plan and "hidden" not in plan
    assert sorted(each.offset for each in kept) == [0, 1, 4]
    assert [(each.key(), each.value()) for each in letters] == [
        (b"c", b"\0\0\0\0\1bad"),
        (b"d", b"{}"),
    ]
    assert b"names no schema" in dict(letters[1].headers())["error"]
    assert dict(letters[1].headers())["offset"] == b"3"


@pytest.mark.timeout(600)
def test_rows_are_written_with_a_schema_that_follows_from_them(
    clicks: Clicks, spark: SparkSession
) -> None:
    rows = spark.createDataFrame([("/", 1), ("/cart", None)], "page STRING, ms BIGINT")
    topic = f"{clicks.topic}-out"
    framed = rows.select(
        to_avro(F.struct("page", "ms"), clicks.url, subject=f"{clicks.topic}-value").alias("value")
    )

    rows.select(F.struct("page", "ms").alias("value")).coalesce(1).write.format("headrace").options(
        **clicks.options(topic=topic, valueFormat="avro", valueSchemaRegister="true")
    ).mode("append").save()
    back = framed.select(
        from_avro("value", clicks.url, subject=f"{clicks.topic}-value", version=2).alias("v")
    ).select("v.*")

    assert clicks.values(topic, 2) == [{"page": "/", "ms": 1}, {"page": "/cart", "ms": None}]
    assert {tuple(each) for each in back.collect()} == {("/", 1), ("/cart", None)}


PROTOBUF = 'syntax = "proto3"; message Other {} message Click { string page = 1; int64 ms = 2; }'
JSON = json.dumps(
    {
        "type": "object",
        "properties": {"page": {"type": "string"}, "ms": {"type": "integer"}},
        "required": ["page"],
    }
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "schema", "message", "encode", "decode"),
    [
        ("protobuf", PROTOBUF, {"message": "Click"}, to_protobuf, from_protobuf),
        ("json", JSON, {}, to_json_schema, from_json_schema),
    ],
)
def test_protobuf_and_json_through_the_sink_the_source_and_functions(
    clicks: Clicks,
    spark: SparkSession,
    name: str,
    schema: str,
    message: dict[str, str],
    encode: Callable[..., Column],
    decode: Callable[..., Column],
) -> None:
    topic, subject = f"{clicks.topic}-out", f"{clicks.topic}-out-value"
    rows = spark.createDataFrame([("/", 1), ("/cart", 2**40)], "page STRING, ms BIGINT")
    options = clicks.options(
        valueFormat=name, **{f"value{key.title()}": text for key, text in message.items()}
    )

    rows.select(F.struct("page", "ms").alias("value")).write.format("headrace").options(
        **options, topic=topic, valueSchemaRegister="true", valueSchema=schema
    ).mode("append").save()
    read = spark.read.format("headrace").options(**options, subscribe=topic).load()
    framed = rows.select(
        encode(F.struct("page", "ms"), clicks.url, subject=subject, **message).alias("framed")
    )
    back = framed.select(decode("framed", clicks.url, subject=subject, **message).alias("value"))

    both = read.select("value.*").union(back.select("value.*"))
    assert sorted(tuple(each) for each in both.collect()) == [
        ("/", 1),
        ("/", 1),
        ("/cart", 2**40),
        ("/cart", 2**40),
    ]


@pytest.mark.timeout(600)
def test_sql_infers_columns_and_writes_with_a_schema(
    clicks: Clicks, spark: SparkSession, tmp_path: Path
) -> None:
    engine = Engine(spark, clicks.address, Catalog(), tmp_path / "checkpoints", once=True)
    script = f"""
        CREATE STREAM clicks
          WITH (topic = '{clicks.topic}', format = 'avro', schema.registry = '{clicks.url}');
        CREATE STREAM `{clicks.topic}-slow`
          WITH (format = 'avro', schema.registry = '{clicks.url}', key = 'page')
          AS SELECT page, ms FROM clicks WHERE ms > 5;
        SELECT page, ms FROM `{clicks.topic}-slow`;
    """

    *_, answer = [engine.run(each, script) for each in parse(script)]

    found = engine.catalog.get("clicks")
    assert found is not None
    assert found.columns == (("page", "STRING", None), ("ms", "BIGINT", None))
    assert answer.rows == [("/cart", 7)]
    assert clicks.values(f"{clicks.topic}-slow", 1) == [{"page": "/cart", "ms": 7}]


@pytest.mark.timeout(600)
def test_sql_writes_protobuf_and_json_by_the_text_of_a_schema(
    clicks: Clicks, spark: SparkSession, tmp_path: Path
) -> None:
    engine = Engine(spark, clicks.address, Catalog(), tmp_path / "checkpoints", once=True)
    registry = f"schema.registry = '{clicks.url}'"
    script = f"""
        CREATE STREAM p (page STRING, ms BIGINT)
          WITH (topic = '{clicks.topic}-p', format = 'protobuf', {registry}, message = 'Click',
                schema = '{PROTOBUF}');
        CREATE STREAM j (page STRING, ms BIGINT)
          WITH (topic = '{clicks.topic}-j', format = 'json', {registry}, schema = '{JSON}');
        INSERT INTO p VALUES ('/', 1);
        INSERT INTO j SELECT page, ms + 1 FROM p;
        SELECT p.ms, j.ms FROM p JOIN j ON p.page = j.page;
    """

    *_, answer = [engine.run(each, script) for each in parse(script)]

    assert answer.rows == [(1, 2)]
