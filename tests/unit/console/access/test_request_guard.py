"""The bounds of a body."""

import anyio
import anyio.lowlevel
import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message

from headrace.console.access.request_guard import MOST_BODY_BYTES, _bounded


def test_a_body_without_length_that_is_too_long_is_refused_as_such() -> None:
    half = b"x" * (MOST_BODY_BYTES // 2 + 1)

    async def receive() -> Message:
        return {"type": "http.request", "body": half, "more_body": True}

    async def read() -> None:
        bounded = _bounded(receive)
        assert (await bounded())["body"] == half
        with pytest.raises(HTTPException) as refused:
            await bounded()
        assert refused.value.status_code == 413

    anyio.run(read)


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.console.access.request_guard.BODY_SECONDS", 0.0)

    async def read() -> None:
        with pytest.raises(HTTPException) as refused:
            await _bounded(anyio.sleep_forever)()
        assert refused.value.status_code == 408

    anyio.run(read)


def test_the_end_of_a_stream_is_waited_for_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.console.access.request_guard.BODY_SECONDS", 0.0)
    messages: list[Message] = [
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        if len(messages) == 1:
            await anyio.lowlevel.checkpoint()
        return messages.pop(0)

    async def read() -> None:
        bounded = _bounded(receive)
        assert (await bounded())["type"] == "http.request"
        assert (await bounded())["type"] == "http.disconnect"

    anyio.run(read)
