"""Landing a topic in a table with Spark: batches that are repeated, and a crash in the middle."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.client import Writer
from headrace.client.settings import ClientSettings
from headrace.flow.land_table import TableLanding
from headrace.landing.batch_lander import BatchLander
from headrace.landing.lander import Lander, LandingOptions
from headrace.landing.row.raw import RawDecoder
from headrace.landing.source import Source
from headrace.model.table.table_name import TableName
from headrace.testing.quick_settings import QUICK_SETTINGS
from testkit.process.broker_process import BrokerProcess

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

NOW = {"availableNow": True}


class Site:
    """A topic of two partitions, a table and a checkpoint."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, topic: str, folder: Path):
        self.topic, self.broker, self.folder = topic, broker, folder
        self.checkpoint = folder / "checkpoint"
        self._spark = spark
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)

    @property
    def catalog(self) -> dict[str, str]:
        folder = self.folder
        return {"uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}

    def table(self, kind: str) -> TableName:
        text = f"delta:{self.folder}/clicks" if kind == "delta" else "iceberg:lake.shop.clicks"
        return TableName.parse(text)

    def write(self, *values: str) -> None:
        places = pa.array([number % 2 for number in range(len(values))], pa.int32())
        with Writer({"bootstrap.servers": self.broker.address}, self.topic) as writer:
            writer.write(pa.table({"value": list(values), "partition": places}))

    def land(self, kind: str, **options: Any) -> None:
        landing = TableLanding(
            topic=self.topic,
            brokers=self.broker.address,
            table=self.table(kind),
            catalog=self.catalog,
            **options,
        )
        query = landing.start(self._spark, checkpoint=str(self.checkpoint), trigger=NOW)
        query.awaitTermination()

    def rows(self, name: TableName) -> list[dict[str, Any]]:
        if name.kind == "delta":
            from deltalake import DeltaTable

            table: Any = DeltaTable(str(name.path)).to_pyarrow_table()
        else:
            from pyiceberg.catalog import load_catalog

            catalog = load_catalog("lake", **self.catalog)
            table = catalog.load_table(name.identifier).scan().to_arrow()
        found: list[dict[str, Any]] = table.to_pylist()
        return found

    def forget_commit(self) -> None:
        """Bring the checkpoint to where a crash right after the table's commit leaves it."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


@pytest.fixture
def site(spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path) -> Site:
    return Site(spark, broker, topic, tmp_path)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_each_record_lands_once_over_crashes(
    site: Site, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = site.table(kind)
    site.write("a", "b", "c")
    site.land(kind, partition_by="hour(timestamp)")
    site.forget_commit()
    site.land(kind, partition_by="hour(timestamp)")
    assert sorted(each["value"] for each in site.rows(name)) == [b"a", b"b", b"c"]

    def crash(*arguments: object) -> None:
        raise RuntimeError("the driver ends here, and its tasks have written files")

    site.write("d", "e")
    with monkeypatch.context() as patch:
        patch.setattr(BatchLander, "_commit", crash)
        with pytest.raises(StreamingQueryException, match="the driver ends here"):
            site.land(kind, partition_by="hour(timestamp)")
    assert len(site.rows(name)) == 3

    site.land(kind, partition_by="hour(timestamp)")
    assert sorted(each["value"] for each in site.rows(name)) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_lost_checkpoint_and_the_light_lander_go_on_where_the_table_is(site: Site) -> None:
    name = site.table("delta")
    site.write("a", "b")
    site.land("delta")
    site.write("c")
    Lander(
        ClientSettings.of({"bootstrap.servers": site.broker.address}),
        Source(topic=site.topic, topic_id=None),
        RawDecoder(),
        LandingOptions(table=name, follow=False),
    ).run()
    site.write("d")
    site.land("delta")
    shutil.rmtree(site.checkpoint)
    site.write("e")
    site.land("delta")

    found = site.rows(name)
    assert sorted(each["value"] for each in found) == [b"a", b"b", b"c", b"d", b"e"]
    places = {(each["partition"], each["offset"]) for each in found}
    assert len(places) == 5

    shutil.rmtree(name.path)
    site.write("f")
    with pytest.raises(StreamingQueryException, match="replaced, removed or rolled back"):
        site.land("delta")


def test_records_show_columns_and_bad_ones_are_dead_letters(site: Site) -> None:
    name = site.table("delta")
    site.write('{"page": "home", "ms": 5}', "no json", '{"page": "cart", "ms": 7}')
    site.land("delta", values="json")

    pages = sorted((each["page"], each["ms"]) for each in site.rows(name))
    assert pages == [("cart", 7), ("home", 5)]
    assert [each["value"] for each in site.rows(name.dead_letters)] == [b"no json"]


def test_changes_land_with_a_login(spark: SparkSession, topic: str, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("lander=correct-horse\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
    }
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "lander",
        "kafka.sasl.password": "correct-horse",
    }
    with BrokerProcess(tmp_path / "broker", settings) as broker:
        found = re.search(r"listens on (\S+), (\S+)", broker.log)
        assert found is not None
        admin = AdminClient({"bootstrap.servers": found[1]})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        table = TableName.parse(f"delta:{tmp_path}/users-table")

        def write(*events: dict[str, Any]) -> None:
            with Writer({"bootstrap.servers": found[1]}, topic) as writer:
                writer.write(pa.table({"value": [json.dumps(each) for each in events]}))

        def land() -> None:
            landing = TableLanding(
                topic=topic,
                brokers=found[2],
                table=table,
                values="json",
                columns="id INT, name STRING",
                keys=("id",),
                envelope="debezium",
                options=login,
            )
            checkpoint = str(tmp_path / "checkpoint")
            landing.start(spark, checkpoint=checkpoint, trigger=NOW).awaitTermination()

        write(*({"op": "c", "after": {"id": each, "name": "old"}} for each in range(4)))
        land()
        write({"op": "u", "after": {"id": 1, "name": "new"}}, {"op": "d", "before": {"id": 2}})
        land()

    from deltalake import DeltaTable

    rows = DeltaTable(str(table.path)).to_pyarrow_table().to_pylist()
    assert {each["id"]: each["name"] for each in rows} == {0: "old", 1: "new", 3: "old"}
