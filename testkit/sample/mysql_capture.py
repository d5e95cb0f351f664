"""Tables of a MariaDB server whose changes an agent captures into topics of a broker."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pymysql

from headrace.testing.readiness import wait_until
from testkit.peer.mariadb import MariadbServer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.change_capture import WIRING, CapturedRecord, records_of

_numbers = count()


class MysqlCapture:
    """One database of tables, with topics and a transactional id of its own."""

    def __init__(self, server: MariadbServer, broker: BrokerProcess) -> None:
        self.name = f"m{next(_numbers)}"
        self.broker = broker.address
        self.server = server
        self.database = self.connect()
        self.run(f"CREATE DATABASE {self.name}")
        self.run(f"USE {self.name}")

    def connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.server.port, user="capture", autocommit=True
        )

    def run(self, statement: str) -> None:
        with self.database.cursor() as cursor:
            cursor.execute(statement)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.database.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def configuration(self, **settings: str) -> str:
        keys = {
            "type": "mysql_cdc",
            "url": self.server.url,
            "database.include.list": self.name,
            "topic.prefix": "my",
            "batchSize": "50",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        lines = [f"a1.sources.r1.{key} = {value}" for key, value in keys.items()]
        return WIRING.format(broker=self.broker, id=self.name) + "\n".join(lines)

    def records(self, table: str) -> list[CapturedRecord]:
        return records_of(self.broker, f"my.{self.name}.{table}")

    def wait_for(self, table: str, enough: Callable[[list[CapturedRecord]], bool]) -> list[Any]:
        found: list[CapturedRecord] = []

        def arrived() -> bool:
            found[:] = self.records(table)
            return enough(found)

        wait_until(arrived, what=f"the records of {table}", timeout_seconds=90)
        return found

    def wait_for_count(self, table: str, size: int) -> list[Any]:
        found = self.wait_for(table, lambda records: len(records) >= size)
        assert len(found) == size, found
        return found

    def close(self) -> None:
        self.database.close()
