"""Parsing and comparing has room for few at once, and what one request costs is bounded."""

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from headrace.client.settings import ClientSettings
from headrace.gateway.registry import checker as checker_module
from headrace.gateway.registry.app import RegistryApp
from headrace.gateway.registry.body import has_much_structure
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.heavy_work import WorkGate
from headrace.gateway.registry.settings import RegistrySettings
from testkit.sample.memory_registry import MemoryRegistry


def test_a_thread_that_is_inside_enters_again_and_others_do_not() -> None:
    gate = WorkGate(at_once=1, wait_seconds=0.01)
    refused: list[int] = []

    def other() -> None:
        try:
            with gate.enter():
                pass
        except RegistryError as error:
            refused.append(error.code)

    with gate.enter(), gate.enter():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    other()
    assert refused == [50002]


def test_a_request_that_costs_too_much_goes_on_when_it_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = MemoryRegistry()
    registry.call("PUT", "/config", {"compatibility": "FULL_TRANSITIVE"})
    fields: list[Any] = []
    for index in range(6):
        fields.append({"name": f"f{index}", "type": "int", "default": 0, "doc": "d" * 1000})
        registry.register("a", json.dumps({"type": "record", "name": "R", "fields": fields}))
    monkeypatch.setattr(checker_module, "_REQUEST_CHARACTERS", 5_000)
    fresh = MemoryRegistry()  # as after a restart
    for each in registry.log:
        fresh.state.apply(each)
    new = {"schema": json.dumps({"type": "record", "name": "R", "fields": fields[:1]})}
    path = "/compatibility/subjects/a/versions"
    codes = []
    for _ in range(10):
        try:
            codes.append(fresh.call("POST", path, new)["is_compatible"])
            break
        except RegistryError as error:
            codes.append(error.code)
    assert codes[-1] is True
    assert len(codes) > 1 and set(codes[:-1]) == {50002}


def test_references_among_a_thousand_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker_module, "_MOST_REFERENCE_STEPS", 50)
    registry = MemoryRegistry()
    references: list[Any] = []
    for index in range(12):
        text = json.dumps({"type": "record", "name": f"R{index}", "fields": []})
        if index < 10:
            registry.register(f"r{index}", text, references=references)
            references.append({"name": f"R{index}", "subject": f"r{index}", "version": 1})
        else:
            body = {"schema": text, "references": references}
            assert registry.code("POST", f"/subjects/r{index}/versions", body) == 42201


@pytest.mark.parametrize(
    "body, is_much",
    [
        (b"[" + b"{}," * 1_000_000 + b"{}]", True),
        (b"[" + b'"ab",' * 1_000_000 + b"0]", True),
        (b'{"schema":"' + b"[{}," * 1_000_000 + b'"}', False),
        (b'{"schema":"' + b'\\"' * 1_000_000, False),
        (b'"' + b"\\\\" * 1_000_000 + b"\\", False),
    ],
)
def test_the_json_around_texts_is_counted_in_one_pass(body: bytes, is_much: bool) -> None:
    begin = time.thread_time()
    assert has_much_structure(body) is is_much
    assert time.thread_time() - begin < 3


def test_requests_that_only_look_something_up_do_not_wait_for_heavy_ones() -> None:
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    app = RegistryApp(RegistrySettings(client=client), 8081)
    registry: Any = MemoryRegistry()
    app.service = registry
    registry.register("a", '"int"')

    async def call(method: str, path: str, body: bytes = b"") -> int:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        await app(scope, receive, send)
        status: int = sent[0]["status"]
        return status

    async def run() -> list[int]:
        heavy = [
            asyncio.ensure_future(
                call(
                    "POST",
                    "/compatibility/subjects/a/versions/latest",
                    json.dumps(
                        {"schema": json.dumps(["long", {"type": "string", "x": i}])}
                    ).encode(),
                )
            )
            for i in range(40)
        ]
        looked_up = await asyncio.wait_for(call("GET", "/subjects"), 30)
        assert not any(each.done() for each in heavy)
        free.set()
        return [looked_up, *await asyncio.gather(*heavy)]

    free = threading.Event()
    gate = registry.view.checker._shared.gate
    enter = gate.enter

    def enter_when_free() -> Any:
        assert free.wait(60)
        return enter()

    gate.enter = enter_when_free
    assert set(asyncio.run(run())) == {200}
    app.close()
