"""The sessions of change capture, without a server."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from headrace.ingest.cdc.mysql.connection import MysqlCatalog
from headrace.ingest.cdc.mysql.position import LogPosition
from headrace.ingest.cdc.mysql.snapshot_reader import SnapshotReader
from headrace.ingest.cdc.postgres.connection import PostgresConnector


def test_policies_do_not_leave_out_rows_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda url, **more: SimpleNamespace(**more))
    session: Any = PostgresConnector("postgresql://127.0.0.1:1/shop", {}).control()
    assert "-c row_security=off" in session.options


def test_the_global_lock_is_waited_for_with_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MysqlCatalog, "log_end", lambda _: LogPosition("log.1", 4))
    statements: list[str] = []
    cursor = SimpleNamespace(execute=statements.append)
    SnapshotReader(SimpleNamespace(cursor=lambda: nullcontext(cursor)))
    before = statements[: statements.index("FLUSH TABLES WITH READ LOCK")]
    assert "SET SESSION lock_wait_timeout = 10" in before
    assert "SET SESSION net_write_timeout = 3600" in before
