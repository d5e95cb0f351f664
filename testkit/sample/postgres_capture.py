"""Tables of a PostgreSQL server whose changes an agent captures into topics of a broker."""

from collections.abc import Callable
from itertools import count
from typing import Any

import psycopg

from headrace.testing.readiness import wait_until
from testkit.peer.postgres import PostgresServer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING, CapturedRecord, records_of

_numbers = count()


class PostgresCapture:
    """One schema of tables, with a slot, topics and a transactional id of its own."""

    def __init__(self, server: PostgresServer, broker: BrokerProcess) -> None:
        self.name = f"c{next(_numbers)}"
        self.broker = broker.address
        self.url = server.url
        self.database = psycopg.connect(server.url, autocommit=True)
        self.run(f"CREATE SCHEMA {self.name}")
        self.run(f"SET search_path = {self.name}")

    def run(self, statement: str) -> None:
        self.database.execute(statement.encode())

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.database.execute(statement.encode()).fetchall()

    def configuration(self, **settings: str) -> str:
        keys = {
            "type": "postgres_cdc",
            "url": self.url,
            "slot.name": self.name,
            "publication.name": self.name,
            "schema.include.list": self.name,
            "topic.prefix": "db",
            "batchSize": "50",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        lines = [f"a1.sources.r1.{key} = {value}" for key, value in keys.items()]
        return WIRING.format(broker=self.broker, id=self.name) + "\n".join(lines)

    def records(self, table: str) -> list[CapturedRecord]:
        return records_of(self.broker, f"db.{self.name}.{table}")

    def wait_for(self, table: str, enough: Callable[[list[CapturedRecord]], bool]) -> list[Any]:
        found: list[CapturedRecord] = []

        def arrived() -> bool:
            found[:] = self.records(table)
            return enough(found)

        wait_until(arrived, what=f"the records of {table}", timeout_seconds=60)
        return found

    def wait_for_count(self, table: str, size: int) -> list[Any]:
        found = self.wait_for(table, lambda records: len(records) >= size)
        assert len(found) == size, found
        return found

    def slot_lsn(self) -> int:
        ((lsn,),) = self.query(
            "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots "
            f"WHERE slot_name = '{self.name}'"
        )
        return int(lsn)

    def has_slot(self) -> bool:
        return bool(
            self.query(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.name}'")
        )

    def streams(self) -> bool:
        """Return whether the tables are read, and the slot streams."""
        return bool(
            self.query(
                "SELECT 1 FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = "
                f"r.pid WHERE s.slot_name = '{self.name}' AND r.state IN ('catchup', 'streaming')"
            )
        )

    def close(self) -> None:
        self.database.close()
