"""`headrace land` and `headrace table`: exact rows in tables, whatever ends a process."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.client import Admin, ClientSettings, ConnectionPool, NewTopic, TopicPartition, Writer
from headrace.client.address import Address
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from headrace.landing.data_file import FileSet
from headrace.model.table.table_name import TableKind, TableName
from headrace.process.die_with_parent import die_with_parent
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import AvroColumnWriter
from headrace.serde.wire_format import id_head
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace
from testkit.process.registry_client import call

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

KILLS = int(os.environ.get("HEADRACE_LAND_KILLS", "3"))
START_SECONDS = 300.0
PARTITIONS = 2
Put = Callable[..., None]


class Lake:
    """Tables of one kind in a folder."""

    def __init__(self, kind: TableKind, folder: Path, broker: BrokerProcess) -> None:
        self._kind = kind
        self._folder = folder
        self.environment = {"HEADRACE_BROKERS": broker.address}
        self.catalog = {"uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/files"}

    def words(self, table: str) -> list[str]:
        """Return the options that name a table."""
        if self._kind is TableKind.DELTA:
            return [f"delta:{self._folder}/{table}"]
        pairs = [word for each in self.catalog.items() for word in ("--catalog", "=".join(each))]
        return [f"iceberg:lake.shop.{table}", *pairs]

    def land(self, topic: str, table: str, *words: str) -> Finished:
        command = ("land", topic, "--available-now", *words, "--table", *self.words(table))
        return run_headrace(*command, environment=self.environment)

    def maintain(self, verb: str, table: str, *words: str) -> Finished:
        command = ("table", verb, *self.words(table), *words)
        return run_headrace(*command, environment=self.environment)

    def read(self, table: str) -> pa.Table:
        """Read a table with its own library."""
        name = TableName.parse(self.words(table)[0])
        if self._kind is TableKind.DELTA:
            from deltalake import DeltaTable

            return DeltaTable(name.name).to_pyarrow_table()
        return self._iceberg(name).scan().to_arrow()

    def polars(self, table: str) -> Any:
        """Read a table with Polars."""
        name = TableName.parse(self.words(table)[0])
        if self._kind is TableKind.DELTA:
            return polars.read_delta(name.name)
        return polars.scan_iceberg(self._iceberg(name)).collect()

    def exists(self, table: str) -> bool:
        name = TableName.parse(self.words(table)[0])
        if self._kind is TableKind.DELTA:
            return (name.path / "_delta_log").exists()
        return bool(self._catalog().table_exists(name.identifier))

    def _iceberg(self, name: TableName) -> Any:
        return self._catalog().load_table(name.identifier)

    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **self.catalog)


@pytest.fixture(params=[*TableKind])
def lake(request: pytest.FixtureRequest, tmp_path: Path, broker: BrokerProcess) -> Lake:
    return Lake(request.param, tmp_path, broker)


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess) -> Iterator[RegistryServer]:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    name = "_schemas-land"
    listen = Address("127.0.0.1", 0)
    with RegistryServer(
        RegistrySettings(client=client, listen=listen, topic=name, group=name)
    ) as server:
        yield server


@pytest.fixture
def put(broker: BrokerProcess, topic: str) -> Iterator[Put]:
    """Write records to the test's topic: pairs of key and value, or so many of numbers."""
    settings = ClientSettings.of({"bootstrap.servers": broker.address})
    with ConnectionPool(settings) as pool:
        assert not any(Admin(pool).create_topics([NewTopic(topic, PARTITIONS, 1)]).values())

    with Writer(settings, topic) as writer:

        def write(records: Any, partition: int = 0) -> None:
            if isinstance(records, range):
                records = [(b"%d" % each, b"%d" % each) for each in records]
            table = pa.table(
                {
                    "partition": pa.array([partition] * len(records), pa.int32()),
                    "key": pa.array([key for key, _ in records], pa.binary()),
                    "value": pa.array([value for _, value in records], pa.binary()),
                }
            )
            writer.write(table)
            writer.flush()

        yield write


@contextmanager
def landing(lake: Lake, topic: str, table: str, log: Path, *words: str) -> Iterator[Any]:
    """Run `headrace land` in a process of its own."""
    command = [sys.executable, "-m", "headrace.cli.main", "land", topic, *words]
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*command, "--table", *lake.words(table)],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **lake.environment},
            preexec_fn=die_with_parent,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def test_a_topic_lands_once_and_later_runs_continue(lake: Lake, put: Put, topic: str) -> None:
    put(range(100), 0)
    put(range(100, 150), 1)
    first = lake.land(topic, "clicks", "--partition-by", "hour(timestamp)")
    put(range(150, 160), 1)
    second = lake.land(topic, "clicks", "--partition-by", "hour(timestamp)")
    third = lake.land(topic, "clicks", "--partition-by", "hour(timestamp)")

    assert [each.code for each in (first, second, third)] == [0, 0, 0], first.err
    assert "150 rows in 1 commits" in first.out
    assert "10 rows in 1 commits" in second.out
    assert "0 rows in 0 commits" in third.out
    rows = lake.read("clicks")
    assert sorted(map(int, rows["value"].to_pylist())) == [*range(160)]
    places = set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    assert places == {(0, each) for each in range(100)} | {(1, each) for each in range(60)}


def test_duckdb_and_polars_read_the_same_rows(
    lake: Lake, put: Put, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise Polars asks for a package of its own, with a warning.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    put([(b"k", json.dumps({"page": f"/{each % 3}", "ms": each}).encode()) for each in range(30)])
    landed = lake.land(topic, "clicks", "--as", "json", "--schema", "page STRING, ms INT")
    assert landed.code == 0, landed.err

    rows = lake.read("clicks")
    query = "SELECT page, sum(ms) AS ms FROM rows GROUP BY page ORDER BY page"
    with duckdb.connect() as database:
        database.register("rows", rows)
        summed = database.execute(query).fetchall()
    frame = lake.polars("clicks").group_by("page").agg(polars.col("ms").sum()).sort("page")

    assert summed == [("/0", 135), ("/1", 145), ("/2", 155)]
    assert frame.rows() == summed


def test_kill_9_neither_loses_nor_doubles_a_row(
    lake: Lake, put: Put, topic: str, tmp_path: Path
) -> None:
    chance = random.Random(topic)
    number = 0
    for turn in range(KILLS):
        log = tmp_path / f"land-{turn}.log"
        put(range(number, number + 20), turn % PARTITIONS)
        number += 20
        with landing(lake, topic, "clicks", log, "--every", "0.05s") as process:
            # Each turn leaves rows to land, so a line says that this process has begun.
            wait_until(
                lambda log=log: "rows in" in log.read_text(),
                what="the first commit",
                timeout_seconds=START_SECONDS,
            )
            for _ in range(chance.randrange(40)):
                put(range(number, number + 20), number // 20 % PARTITIONS)
                number += 20
            assert process.poll() is None, log.read_text()
            process.send_signal(signal.SIGKILL)
            process.wait()

    assert lake.land(topic, "clicks").code == 0
    rows = lake.read("clicks")
    assert sorted(map(int, rows["value"].to_pylist())) == [*range(number)]
    assert lake.maintain("compact", "clicks").code == 0
    expired = lake.maintain("expire", "clicks", "--older-than", "1s", "--force")
    assert expired.code == 0, expired.err
    assert sorted(map(int, lake.read("clicks")["value"].to_pylist())) == [*range(number)]


def test_a_second_process_is_refused(lake: Lake, put: Put, topic: str, tmp_path: Path) -> None:
    put(range(10))
    assert lake.land(topic, "clicks").code == 0
    log = tmp_path / "land.log"
    with landing(lake, topic, "clicks", log, "--every", "0.1s") as process:
        number = 10

        def refused() -> bool:
            nonlocal number
            put(range(number, number + 1))
            number += 1
            lake.land(topic, "clicks")
            return process.poll() is not None

        wait_until(refused, what="the end of the second process", timeout_seconds=START_SECONDS)

    assert process.returncode == 1
    assert f"another process lands {topic}" in log.read_text()
    assert lake.land(topic, "clicks").code == 0
    assert sorted(map(int, lake.read("clicks")["value"].to_pylist())) == [*range(number)]


def test_sigterm_commits_and_ends_cleanly(lake: Lake, put: Put, topic: str, tmp_path: Path) -> None:
    put(range(10))
    log = tmp_path / "land.log"
    with landing(lake, topic, "clicks", log, "--every", "0.2s") as process:
        wait_until(
            lambda: "10 rows" in log.read_text(),
            what="the first commit",
            timeout_seconds=START_SECONDS,
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0

    assert lake.read("clicks").num_rows == 10


def test_what_is_no_row_is_a_dead_letter(lake: Lake, put: Put, topic: str) -> None:
    put([(b"a", b'{"ms": 1}'), (b"b", b"nonsense"), (b"c", b'{"ms": "x"}')])
    words = ("--as", "json", "--schema", "ms INT")

    landed = lake.land(topic, "clicks", *words)
    put([(b"d", b"again")])
    lake.land(topic, "clicks", *words)

    assert "2 dead letters" in landed.out, landed.err
    assert lake.read("clicks")["ms"].to_pylist() == [1]
    letters = lake.read("clicks_dead_letters").sort_by("offset")
    assert letters["value"].to_pylist() == [b"nonsense", b'{"ms": "x"}', b"again"]
    assert letters["offset"].to_pylist() == [1, 2, 3]
    assert all(letters["reason"].to_pylist())


def test_change_events_become_the_table_of_the_database(lake: Lake, put: Put, topic: str) -> None:
    def event(op: str, before: Any, after: Any) -> bytes:
        return json.dumps({"before": before, "after": after, "op": op}).encode()

    words = ("--as", "json", "--schema", "id INT, name STRING", "--upsert", "id")
    words = (*words, "--envelope", "debezium")
    put([(b"", event("r", None, {"id": each, "name": f"n{each}"})) for each in range(20)])
    assert lake.land(topic, "users", *words).code == 0
    put([(b"", event("u", None, {"id": each, "name": "new"})) for each in range(5)])
    put([(b"", event("d", {"id": 7}, None)), (b'{"id": 7}', None)])
    put([(b"", event("c", None, {"id": 7, "name": "back"})), (b"", event("d", {"id": 8}, None))])

    landed = lake.land(topic, "users", *words)

    assert landed.code == 0, landed.err
    rows = {each["id"]: each["name"] for each in lake.read("users").to_pylist()}
    expected = {each: f"n{each}" for each in range(20)} | dict.fromkeys(range(5), "new")
    del expected[8]
    assert rows == expected | {7: "back"}


def avro(registry: RegistryServer, subject: str, fields: list[Any], *rows: Any) -> list[Any]:
    """Register a schema, and return records with values of it."""
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    status, answer = call(registry.url, "POST", f"/subjects/{subject}/versions", {"schema": text})
    assert status == 200, answer
    schema: Any = parse(SchemaText(SchemaType.AVRO, text))
    written = AvroColumnWriter(schema).write(pa.array(rows), prefix=id_head(answer["id"]))
    return [(b"k", each) for each in written.values.to_pylist()]


def test_schemas_of_the_registry_evolve_and_what_does_not_fit_is_a_dead_letter(
    lake: Lake, put: Put, topic: str, registry: RegistryServer
) -> None:
    number = {"name": "id", "type": "int"}
    page = {"name": "page", "type": ["null", "string"], "default": None}
    words = ("--as", "registry", "--registry", registry.url)
    put(avro(registry, f"{topic}-value", [number], {"id": 1}))
    first = lake.land(topic, "clicks", *words)
    put(avro(registry, f"{topic}-value", [number, page], {"id": 2, "page": "/"}))
    put(avro(registry, f"{topic}-other", [{"name": "id", "type": "string"}], {"id": "three"}))
    put([(b"k", b"no schema")])

    second = lake.land(topic, "clicks", *words)

    assert (first.code, second.code) == (0, 0), first.err + second.err
    rows = lake.read("clicks").sort_by("_offset").select(["id", "page"]).to_pylist()
    assert rows == [{"id": 1, "page": None}, {"id": 2, "page": "/"}]
    letters = lake.read("clicks_dead_letters").sort_by("offset")
    assert "field id is string" in letters["reason"][0].as_py()
    assert letters["reason"][1].as_py() == "it names no schema"


def test_change_events_in_avro_become_the_table_of_the_database(
    lake: Lake, put: Put, topic: str, registry: RegistryServer
) -> None:
    row = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
    }
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Row"], "default": None},
        {"name": "op", "type": "string"},
    ]
    one, two = {"id": 1, "name": "one"}, {"id": 2, "name": "two"}
    put(
        avro(
            registry,
            f"{topic}-value",
            fields,
            {"before": None, "after": one, "op": "c"},
            {"before": None, "after": two, "op": "c"},
            {"before": one, "after": {"id": 1, "name": "new"}, "op": "u"},
            {"before": two, "after": None, "op": "d"},
        )
    )

    words = ("--as", "registry", "--registry", registry.url, "--upsert", "id")
    landed = lake.land(topic, "users", *words, "--envelope", "debezium")

    assert landed.code == 0, landed.err
    assert lake.read("users").select(["id", "name"]).to_pylist() == [{"id": 1, "name": "new"}]


def test_records_that_the_topic_lost_end_the_run_unless_they_are_skipped(
    lake: Lake, put: Put, topic: str, broker: BrokerProcess
) -> None:
    put(range(10))
    assert lake.land(topic, "clicks").code == 0
    put(range(10, 20))
    settings = ClientSettings.of({"bootstrap.servers": broker.address})
    with ConnectionPool(settings) as pool:
        Admin(pool).delete_records({TopicPartition(topic, 0): 15})

    refused = lake.land(topic, "clicks")
    skipped = lake.land(topic, "clicks", "--skip-lost")

    assert refused.code == 1
    assert "offset 10" in refused.err
    assert "--skip-lost" in refused.err
    assert skipped.code == 0
    assert "offsets 10 to 14 are skipped" in skipped.err
    values = sorted(map(int, lake.read("clicks")["value"].to_pylist()))
    assert values == [*range(10), *range(15, 20)]


def test_a_topic_that_was_created_again_is_refused(
    lake: Lake, put: Put, topic: str, broker: BrokerProcess
) -> None:
    put(range(10))
    assert lake.land(topic, "clicks").code == 0
    settings = ClientSettings.of({"bootstrap.servers": broker.address})
    with ConnectionPool(settings) as pool:
        Admin(pool).delete_topics([topic])
        Admin(pool).create_topics([NewTopic(topic, PARTITIONS, 1)])

    refused = lake.land(topic, "clicks")

    assert refused.code == 1
    assert "deleted and created again" in refused.err


def test_a_full_disk_commits_nothing_of_what_was_not_written(
    lake: Lake, put: Put, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(range(10))
    assert lake.land(topic, "clicks").code == 0
    for number in range(10, 60):
        put(range(number, number + 1), number % PARTITIONS)
    real, calls = FileSet.write, iter(range(1000))

    def write(files: FileSet, rows: pa.RecordBatch) -> None:
        if next(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(files, rows)

    with monkeypatch.context() as patch:
        patch.setattr(FileSet, "write", write)
        failed = lake.land(topic, "clicks", "--every", "0.001s")
    landed = sorted(map(int, lake.read("clicks")["value"].to_pylist()))
    again = lake.land(topic, "clicks")

    assert failed.code == 1
    assert "No space left on device" in failed.err
    assert len(landed) < 60
    assert again.code == 0
    assert sorted(map(int, lake.read("clicks")["value"].to_pylist())) == [*range(60)]


def test_status_says_how_far_a_table_is_behind(lake: Lake, put: Put, topic: str) -> None:
    put(range(10))
    assert lake.land(topic, "clicks").code == 0
    put(range(10, 13))

    status = json.loads(lake.maintain("status", "clicks", "--format", "json").out)

    assert (status["topic"], status["rows"], status["files"], status["lag"]) == (topic, 10, 1, 3)


def test_a_topic_or_table_that_is_not_there_is_said(lake: Lake, topic: str) -> None:
    landed = lake.land(topic, "clicks")
    status = lake.maintain("status", "clicks")

    assert (landed.code, status.code) == (1, 1)
    assert topic in landed.err
    assert "there is no table" in status.err
    assert not lake.exists("clicks")
