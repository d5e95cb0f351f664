"""What the bodies of all gateways' requests are bounded by."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace.gateway.http import bounded_body
from headrace.gateway.http.asgi import Message, Receive
from headrace.gateway.http.bounded_body import (
    BodyTooLarge,
    BodyTooSlow,
    Disconnected,
    NoRoom,
    declared_size,
    read_bounded_body,
)
from headrace.gateway.http.byte_budget import ByteBudget


def client(*messages: Message) -> Receive:
    """Send these messages, and then nothing."""
    left: Iterator[Message] = iter(messages)

    async def receive() -> Message:
        found = next(left, None)
        if found is None:
            await asyncio.Event().wait()
        assert found is not None
        return found

    return receive


def piece(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


def read(receive: Receive, *, limit: int = 100, room: int = 100, length: str = "") -> bytes:
    headers = {"content-length": length} if length else {}

    async def run() -> bytes:
        share = ByteBudget(room).share()
        return await read_bounded_body(receive, headers, limit, share)

    return asyncio.run(run())


def test_a_body_comes_in_pieces_or_not_at_all() -> None:
    assert read(client(piece(b"ab", more=True), piece(b"c"))) == b"abc"
    assert read(client(piece(b""))) == b""


@pytest.mark.parametrize("length", ["101", "9" * 18, "9" * 19, "9" * 5000])
def test_a_body_that_announces_too_much_is_not_read(length: str) -> None:
    with pytest.raises(BodyTooLarge):
        read(client(), length=length)


def test_a_body_that_has_more_than_it_announces_is_too_large() -> None:
    with pytest.raises(BodyTooLarge):
        read(client(piece(b"x" * 60, more=True), piece(b"x" * 41)), length="60")


@pytest.mark.parametrize("text", ["", "-1", "1.5", "٣", "many"])
def test_what_is_no_length_declares_none(text: str) -> None:
    assert declared_size({"content-length": text}) == 0


def test_a_client_that_goes_or_stops_keeps_no_request_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Disconnected):
        read(client(piece(b"x", more=True), {"type": "http.disconnect"}))

    monkeypatch.setattr(bounded_body, "FIRST_SECONDS", 0.01)
    with pytest.raises(BodyTooSlow):
        read(client(piece(b"x", more=True)))


def test_a_body_for_which_there_is_no_room_in_time_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_body, "BODY_SECONDS", 0.01)

    with pytest.raises(NoRoom):
        read(client(piece(b"x" * 50)), room=10)
