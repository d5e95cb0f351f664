"""`headrace.table.*`: what a topic may say about its table."""

import time

import pytest

from headrace.model.config_page import configuration_page
from headrace.model.error import ConfigError
from headrace.model.table.table_config import TABLE_CONFIG_KEYS, TableConfig
from headrace.model.table.table_name import TableName
from headrace.model.topic_config import TOPIC_CONFIG, LogConfig


def table(**texts: str) -> TableConfig | None:
    """Return the configuration of keys without their prefix; partition_by is partition.by."""
    keys = {f"headrace.table.{key.replace('_', '.')}": text for key, text in texts.items()}
    return TableConfig.of(TOPIC_CONFIG.parse(keys))


def test_a_topic_without_a_name_lands_nowhere() -> None:
    assert table() is None
    assert table(format="json", schema="id INT") is None


def test_a_name_alone_is_enough() -> None:
    found = table(name="delta:shop/clicks")

    assert found == TableConfig(name=TableName.parse("delta:shop/clicks"))
    assert (found.format, found.freshness_ms) == ("raw", 5000)


def test_all_keys_are_read() -> None:
    found = table(
        name="iceberg:lake.shop.users",
        format="json",
        schema="id INT, name STRING, at TIMESTAMP",
        keys="id",
        envelope="debezium",
        partition_by="day( at )",
        freshness_ms="1000",
    )

    assert found is not None
    assert (found.keys, found.envelope, found.partition_by) == (("id",), "debezium", "day(at)")
    assert (found.columns, found.freshness_ms) == ("id INT, name STRING, at TIMESTAMP", 1000)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"name": "clicks"}, "names no table"),
        ({"name": "iceberg:clicks"}, r"CATALOG\.DB\.TABLE"),
        ({"name": "delta:s3://lake/clicks"}, "delta:PATH"),
        ({"name": "delta:file:///lake/clicks"}, "delta:PATH"),
        ({"name": "delta:../clicks"}, "'..' is no folder"),
        ({"name": "delta:lake/_delta_log/x"}, "'_delta_log' is no folder"),
        ({"name": "delta:lake//x"}, "'' is no folder"),
        ({"name": "delta:lake/a\nb"}, "is no folder"),
        ({"name": "iceberg:lake.a/../b.t"}, "is no part of a name"),
        ({"name": "iceberg:lake.shop..t"}, "is no part of a name"),
        ({"name": "delta:" + "x" * 600}, "606 characters"),
        ({"name": "delta:shop/orders_dead_letters"}, "write another name"),
        ({"name": "delta:shop/orders_dead_letters/"}, "write another name"),
        ({"name": "delta:orders_dead_letters/eu"}, "write another name"),
        ({"name": "iceberg:lake.shop.Orders_Dead_Letters"}, "write another name"),
        ({"format": "csv"}, "headrace.table.format cannot be 'csv'"),
        ({"freshness_ms": "1"}, "headrace.table.freshness.ms cannot be '1'"),
        ({"schema": "id INT"}, "headrace.table.format=json"),
        ({"format": "json", "schema": "id TEXT"}, "there is no type TEXT"),
        ({"format": "json", "schema": "schema.ddl"}, "cannot be read"),
        ({"format": "json", "schema": "a INT," * 9000 + "b INT"}, "characters"),
        ({"format": "json", "schema": "id DECIMAL(99)"}, "is no type"),
        ({"keys": "id"}, "headrace.table.format=json or registry"),
        ({"format": "json", "schema": "a INT", "keys": "id"}, "'id', which is no column"),
        ({"envelope": "debezium", "format": "registry"}, "headrace.table.keys=id"),
        ({"envelope": "debezium", "format": "json", "keys": "id"}, "headrace.table.schema"),
        ({"partition_by": "month(timestamp)"}, r"hour\(COLUMN\)"),
        ({"partition_by": "hour( )"}, r"hour\(COLUMN\)"),
        ({"partition_by": "hour(at)"}, "there are timestamp"),
        (
            {"partition_by": "hour(at)", "format": "json", "schema": "at STRING"},
            "there are _timestamp",
        ),
    ],
)
def test_what_cannot_be_is_said(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        table(**texts)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("partition_by", "hour(" + " " * 500_000),
        ("name", "iceberg:" + "a." * 250_000),
        ("schema", "`" * 500_001),
        ("schema", "a ARRAY<" * 3_000),
    ],
)
def test_a_hostile_text_is_refused_at_once(key: str, text: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError):
        table(format="json", **{key: text})
    assert time.process_time() - began < 2


def test_the_log_has_nothing_of_a_table() -> None:
    assert LogConfig.parse({"headrace.table.name": "delta:clicks"}) == LogConfig()


def test_the_keys_are_documented() -> None:
    page = configuration_page()
    assert all(f"`{key.name}`" in page for key in TABLE_CONFIG_KEYS)
    assert not any(key.sensitive for key in TABLE_CONFIG_KEYS)
