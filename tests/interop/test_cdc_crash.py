"""Sources of change capture that crash at random moments, with real databases.

Every change of a row raises its version by one, so that a lost or doubled change shows.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import psycopg
import pymysql
import pytest

from testkit.peer.mariadb import MariadbServer
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.postgres import PostgresServer
from testkit.sample.change_capture import CrashingCapture, check_versions, rebuilt

pytestmark = pytest.mark.interop

ROWS = 600
CRASHES = 12
Execute = Callable[[str], Any]


@contextmanager
def writing(open_connection: Callable[[], Any], upsert: str) -> Iterator[list[Exception]]:
    """Write to the table in two threads inside the block."""
    done, failures = threading.Event(), list[Exception]()

    def write(dice: Random) -> None:
        connection = open_connection()
        try:
            cursor = connection.cursor()
            while not done.wait(0.01):
                cursor.execute("BEGIN")
                try:
                    for row in sorted(dice.sample(range(1, ROWS + 20), dice.choice((1, 3, 80)))):
                        cursor.execute(upsert.format(row=row))
                except (pymysql.OperationalError, psycopg.OperationalError):  # a deadlock
                    cursor.execute("ROLLBACK")
                    continue
                cursor.execute("ROLLBACK" if dice.random() < 0.1 else "COMMIT")
        except Exception as error:  # noqa: BLE001 - the test shows it
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(Random(seed),)) for seed in range(2)]
    for each in threads:
        each.start()
    try:
        yield failures
    finally:
        done.set()
        for each in threads:
            each.join()


def crash_and_check(
    capture: CrashingCapture,
    topic: str,
    open_connection: Callable[[], Any],
    upsert: str,
    query: Callable[[], dict[str, int]],
) -> None:
    dice = Random(3)
    with writing(open_connection, upsert) as failures:
        for _ in range(CRASHES):
            target = len(capture.log) + dice.choice((1, 40, 200))
            capture.run(lambda least=target: len(capture.log) >= least, dice)  # type: ignore[misc]
    assert not failures
    latest = query()

    def complete() -> bool:
        rows = rebuilt(capture.records(topic))
        return {key: row["version"] for key, row in rows.items()} == latest

    capture.run(complete)
    check_versions(capture.records(topic), latest)


def test_postgres() -> None:
    try:
        server = PostgresServer({"wal_level": "logical"})
    except PeerMissing as missing:
        require_peer(str(missing))

    def connect() -> Any:
        return psycopg.connect(server.url, autocommit=True)

    with server, connect() as database:
        database.execute("CREATE TABLE t (id int PRIMARY KEY, version int)")
        database.execute("CREATE TABLE z (id text PRIMARY KEY, version int)")
        database.execute(f"INSERT INTO t SELECT g, 1 FROM generate_series(1, {ROWS}) g".encode())
        database.execute(f"INSERT INTO z SELECT g, 1 FROM generate_series(1, {ROWS}) g".encode())
        texts = {"url": server.url, "topic.prefix": "p", "batchSize": "20"}
        capture = CrashingCapture("postgres_cdc", texts)
        upsert = (
            "WITH other AS (INSERT INTO z VALUES ('{row}', 1) ON CONFLICT (id) DO UPDATE SET "
            "version = z.version + 1) INSERT INTO t VALUES ({row}, 1) ON CONFLICT (id) DO UPDATE "
            "SET version = t.version + 1"
        )

        def query(table: str = "t") -> dict[str, int]:
            rows = database.execute(f"SELECT id, version FROM {table}".encode()).fetchall()
            return {json.dumps({"id": row}): version for row, version in rows}

        crash_and_check(capture, "p.public.t", connect, upsert, query)
        capture.run(
            lambda: (
                {key: row["version"] for key, row in rebuilt(capture.records("p.public.z")).items()}
                == query("z")
            )
        )
        check_versions(capture.records("p.public.z"), query("z"))


def test_mariadb() -> None:
    try:
        server = MariadbServer()
    except PeerMissing as missing:
        require_peer(str(missing))

    def connect() -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=server.port, user="capture", autocommit=True, database="d"
        )

    with server:
        first = pymysql.connect(host="127.0.0.1", port=server.port, user="capture")
        with first.cursor() as cursor:
            cursor.execute("CREATE DATABASE d")
            cursor.execute("CREATE TABLE d.t (id int PRIMARY KEY, version int)")
            values = ",".join(f"({row}, 1)" for row in range(1, ROWS + 1))
            cursor.execute(f"INSERT INTO d.t VALUES {values}")
        first.commit()
        first.close()
        texts = {"url": server.url, "topic.prefix": "p", "batchSize": "20"}
        capture = CrashingCapture("mysql_cdc", texts)
        upsert = "INSERT INTO t VALUES ({row}, 1) ON DUPLICATE KEY UPDATE version = version + 1"

        def query() -> dict[str, int]:
            database = connect()
            with database.cursor() as cursor:
                cursor.execute("SELECT id, version FROM t")
                rows = cursor.fetchall()
            database.close()
            return {json.dumps({"id": row}): version for row, version in rows}

        crash_and_check(capture, "p.d.t", connect, upsert, query)
