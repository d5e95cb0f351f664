"""The leader corrects on its own, and not all the time when that fails."""

from typing import Any

import pytest

from headrace.client.settings import ClientSettings
from headrace.gateway.registry.error import store_failure
from headrace.gateway.registry.service import RegistryService
from headrace.gateway.registry.settings import RegistrySettings
from headrace.gateway.registry.store.election import Election
from headrace.gateway.registry.store.schema_writer import NotLeading, SchemaWriter


def test_a_correction_that_fails_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    service = RegistryService(RegistrySettings(client=client), 8081)
    results = iter([None, NotLeading(), store_failure("too large"), None])
    pauses: list[float] = []

    class Stopping:
        def wait(self, seconds: float) -> bool:
            pauses.append(seconds)
            return len(pauses) > 4

        def is_set(self) -> bool:
            return False

    def lead(*_: Any) -> None:
        result = next(results)
        if result is not None:
            raise result

    stopping: Any = Stopping()
    service._stopping = stopping
    monkeypatch.setattr(Election, "leads", True)
    monkeypatch.setattr(SchemaWriter, "must_correct", lambda _: True)
    monkeypatch.setattr(SchemaWriter, "lead", lead)
    service._correct()
    assert pauses == [0.5, 0.5, 0.5, 30.0, 0.5]
    assert next(results, "all were tried") == "all were tried"
