"""The sessions of change capture, without a server."""

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from headrace.ingest.cdc.postgres.connection import PostgresConnector


def test_policies_do_not_leave_out_rows_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda url, **more: SimpleNamespace(**more))
    session: Any = PostgresConnector("postgresql://127.0.0.1:1/shop", {}).control()
    assert "-c row_security=off" in session.options
