"""The sessions of change capture, without a server."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pymysql.err import OperationalError

from headrace.ingest.cdc.mysql import snapshot_reader
from headrace.ingest.cdc.mysql.connection import MysqlCatalog, MysqlConnector
from headrace.ingest.cdc.mysql.position import LogPosition
from headrace.ingest.cdc.mysql.snapshot_reader import SnapshotReader
from headrace.ingest.cdc.postgres.connection import PostgresConnector


def test_policies_do_not_leave_out_rows_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda url, **more: SimpleNamespace(**more))
    session: Any = PostgresConnector("postgresql://127.0.0.1:1/shop", {}).control()
    assert "-c row_security=off" in session.options


def test_parameters_of_libpq_are_joined_with_those_of_change_capture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda url, **more: SimpleNamespace(**more))
    given = {"options": "-c DateStyle=German", "connect_timeout": "3", "client_encoding": "LATIN1"}
    session: Any = PostgresConnector("postgresql://127.0.0.1:1/shop", given).control()
    assert session.options.startswith("-c DateStyle=German -c DateStyle=ISO ")
    assert (session.connect_timeout, session.client_encoding) == ("3", "UTF8")


def test_a_password_that_latin_1_does_not_have_is_sent_as_utf_8() -> None:
    connector = MysqlConnector("mysql://127.0.0.1:1", "me", "p€ss")
    assert connector.settings["password"] == "p€ss".encode()
    with pytest.raises(OperationalError):  # and not one of encodings, whose text has the password
        connector.open()


class FakeServer:
    """Answers like MySQL; `busy` times the global lock is not to be had."""

    def __init__(self, busy: int = 0) -> None:
        self.statements: list[str] = []
        self._busy = busy

    def cursor(self) -> Any:
        return nullcontext(SimpleNamespace(execute=self._execute, fetchall=list))

    def _execute(self, statement: str, values: object = None) -> None:
        self.statements.append(statement)
        if "READ LOCK" in statement and self._busy:
            self._busy -= 1
            raise OperationalError(1205, "Lock wait timeout exceeded")


@pytest.mark.parametrize(("set_of_log", "known"), [("1-7", True), ("1-7:tag:1", False)])
def test_the_end_of_the_log_has_no_ids_that_cannot_be_followed(
    monkeypatch: pytest.MonkeyPatch, set_of_log: str, known: bool
) -> None:
    gtids = f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{set_of_log}"
    monkeypatch.setattr(MysqlCatalog, "_rows", lambda *_: [("log.1", 4, "", "", gtids)])
    found = MysqlCatalog(None).log_end_gtids()
    assert found == (LogPosition("log.1", 4), gtids if known else None)


@pytest.fixture
def _fixed_log_end(monkeypatch: pytest.MonkeyPatch) -> None:
    end = LogPosition("log.1", 4), "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    monkeypatch.setattr(MysqlCatalog, "log_end_gtids", lambda _: end)
    monkeypatch.setattr(snapshot_reader, "_LOCK_PAUSE_SECONDS", 0)


@pytest.mark.usefixtures("_fixed_log_end")
def test_the_global_lock_is_waited_for_shortly_and_more_than_once() -> None:
    server = FakeServer(busy=2)
    reader = SnapshotReader(server)
    assert reader.log == LogPosition("log.1", 4)
    assert reader.gtids == "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7"
    before = server.statements[: server.statements.index("FLUSH TABLES WITH READ LOCK")]
    assert "SET SESSION lock_wait_timeout = 2" in before
    assert "SET SESSION net_write_timeout = 3600" in before
    assert server.statements[-4:] == [
        "FLUSH TABLES WITH READ LOCK",
        "FLUSH TABLES WITH READ LOCK",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "UNLOCK TABLES",
    ]


@pytest.mark.usefixtures("_fixed_log_end")
def test_a_global_lock_that_is_never_free_is_an_error() -> None:
    server = FakeServer(busy=100)
    with pytest.raises(OperationalError):
        SnapshotReader(server)
    assert server.statements.count("FLUSH TABLES WITH READ LOCK") == 5
