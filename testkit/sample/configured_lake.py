"""Topics whose configuration names a table, and `headrace land --configured` beside them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from headrace.client import Admin, ClientSettings, ConnectionPool, NewTopic, Writer
from headrace.client.admin.admin import ConfigChange
from headrace.client.error import BrokerError
from headrace.client.group.group_admin import GroupAdmin
from headrace.landing.configured.landing_status import GROUP, LandingStatus
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.process.command_line import Finished, run_headrace

_SECONDS: Final = 300.0


class ConfiguredLake:
    """Topics of one cluster, and the tables that they land in.

    Args:
        folder: of the tables.
    """

    def __init__(self, broker: str, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.catalog = {"uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/files"}
        self._settings = ClientSettings.of({"bootstrap.servers": broker})
        self._created: list[str] = []

    @property
    def words(self) -> list[str]:
        pairs = [f"lake:{key}={text}" for key, text in self.catalog.items()]
        catalog = [word for each in pairs for word in ("--catalog", each)]
        return ["land", "--configured", "--folder", str(self.folder), *catalog]

    def land(self, *words: str) -> Finished:
        """Land every topic once."""
        environment = {"HEADRACE_BROKERS": self.broker}
        return run_headrace(*self.words, "--available-now", *words, environment=environment)

    @contextmanager
    def landing(self, log: Path, *words: str) -> Iterator[Any]:
        """Land in a process of its own."""
        with (
            log.open("ab") as out,
            subprocess.Popen(
                [sys.executable, "-m", "headrace.cli.main", *self.words, *words],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HEADRACE_BROKERS": self.broker},
                preexec_fn=die_with_parent,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def create(
        self, name: str, table: Mapping[str, str] | None = None, *, replicas: int = 1
    ) -> None:
        configs = {f"headrace.table.{key}": text for key, text in (table or {}).items()}
        with ConnectionPool(self._settings) as pool:
            outcome = Admin(pool).create_topics([NewTopic(name, 2, replicas, configs)])[name]
        self._created.append(name)
        assert outcome is None, outcome

    def configure(self, name: str, table: Mapping[str, str]) -> BrokerError | None:
        changes = [
            ConfigChange(ConfigOperation.SET, f"headrace.table.{key}", text)
            for key, text in table.items()
        ]
        with ConnectionPool(self._settings) as pool:
            return Admin(pool).alter_configs(ConfigResourceType.TOPIC, {name: changes})[name]

    def delete(self, name: str) -> None:
        self._created.remove(name)
        with ConnectionPool(self._settings) as pool:
            assert Admin(pool).delete_topics([name]) == {name: None}

    def delete_all(self) -> None:
        """Leave no topic that another test's process would land."""
        with ConnectionPool(self._settings) as pool:
            Admin(pool).delete_topics(self._created)

    def put(self, name: str, values: range) -> None:
        rows = {
            "partition": pa.array([each % 2 for each in values], pa.int32()),
            "value": pa.array([b'{"id": %d}' % each for each in values], pa.binary()),
        }
        with Writer(self._settings, name) as writer:
            writer.write(pa.table(rows))
            writer.flush()

    def ids(self, table: str) -> list[int]:
        """Return the values of a raw or JSON table, sorted; none if there is no table."""
        import deltalake

        kind, _, name = table.partition(":")
        if kind == "delta":
            path = str(self.folder / name)
            if not deltalake.DeltaTable.is_deltatable(path):
                return []
            rows = deltalake.DeltaTable(path).to_pyarrow_table()
        else:
            from pyiceberg.catalog import load_catalog

            rows = load_catalog("lake", **self.catalog).load_table("shop.t").scan().to_arrow()
        if "id" in rows.column_names:
            return sorted(rows["id"].to_pylist())
        return sorted(json.loads(each)["id"] for each in rows["value"].to_pylist())

    def wait_for(self, table: str, count: int, log: Path) -> None:
        try:
            wait_until(lambda: len(self.ids(table)) >= count, what=table, timeout_seconds=_SECONDS)
        except TimeoutError:
            raise AssertionError(log.read_text()) from None

    def statuses(self) -> dict[str, LandingStatus]:
        with ConnectionPool(self._settings) as pool:
            found = GroupAdmin(pool).committed(GROUP)
        statuses = [(each.topic, LandingStatus.of(one.metadata)) for each, one in found.items()]
        return {topic: each for topic, each in statuses if each is not None}
