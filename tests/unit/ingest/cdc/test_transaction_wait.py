"""The wait for older transactions before a table is read."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from headrace.ingest.cdc.postgres.transaction_wait import TransactionWait


def test_all_transactions_of_before_must_have_ended() -> None:
    wait = TransactionWait("r1")
    ids = iter([77, 90, 99])
    catalog: Any = SimpleNamespace(next_transaction=lambda: next(ids))
    wait.begin(catalog)
    wait.begin(catalog)
    assert [wait.is_over(oldest) for oldest in (76, 77)] == [False, True]
    wait.forget()
    wait.begin(catalog)
    assert [wait.is_over(oldest) for oldest in (89, 90)] == [False, True]


def test_a_long_wait_for_a_transaction_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    wait = TransactionWait("r1")
    catalog: Any = SimpleNamespace(next_transaction=lambda: 78)
    wait.begin(catalog)
    with structlog.testing.capture_logs() as logs:
        for seconds in (0, 59, 1, 30, 30):
            now[0] += seconds
            assert not wait.is_over(77)
    assert [(each["event"], each["transaction"]) for each in logs] == [("snapshot_waits", 77)] * 2
