"""Bodies are read within bounds: what a client announces and does not send holds nothing."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.gateway.http import bounded_body
from headrace.gateway.http.asgi import Message, Receive
from headrace.gateway.http.byte_budget import ByteBudget
from headrace.gateway.kinesis.request_body import (
    MOST_BODY_BYTES,
    UNSIGNED_BYTES,
    Refused,
    read_body,
)

KEYS = {"AKIDONE": "a-secret-of-some-length"}


def pieces(*sizes: int, ends: bool = True) -> Receive:
    """Send pieces of these sizes, and then nothing."""
    left: Iterator[tuple[int, int]] = iter(list(enumerate(sizes, 1)))

    async def receive() -> Message:
        found = next(left, None)
        if found is None:
            await asyncio.Event().wait()
        assert found is not None
        return {
            "type": "http.request",
            "body": b"x" * found[1],
            "more_body": not (ends and found[0] == len(sizes)),
        }

    return receive


def signed(key: str) -> dict[str, str]:
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return {
        "x-amz-date": date,
        "authorization": f"AWS4-HMAC-SHA256 Credential={key}/{date[:8]}/us-east-1/kinesis/"
        "aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=ab",
    }


def read(receive: Receive, budget: ByteBudget, keys: Any = (), **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(read_body(receive, named, dict(keys) or None, budget.share()))


def test_an_announced_body_takes_nothing_before_it_comes() -> None:
    async def run() -> None:
        budget = ByteBudget(MOST_BODY_BYTES)
        headers = {"content-length": str(MOST_BODY_BYTES)}
        silent = asyncio.ensure_future(read_body(pieces(), headers, None, budget.share()))
        other = budget.share()
        await asyncio.wait_for(read_body(pieces(1 << 20), headers, None, other), 60)
        assert other.taken == 1 << 20
        silent.cancel()

    asyncio.run(run())


def test_a_client_that_stops_in_the_middle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_body, "FIRST_SECONDS", 0.05)

    with pytest.raises(Refused) as refused:
        read(pieces(10, ends=False), ByteBudget(100))

    assert refused.value.error.code == "RequestTimeoutException"


@pytest.mark.parametrize("headers", [{}, signed("AKIDOTHER")])
def test_without_a_known_key_a_large_body_is_not_read(headers: dict[str, str]) -> None:
    declared = {**headers, "content-length": str(UNSIGNED_BYTES + 1)}
    with pytest.raises(Refused) as refused:
        read(pieces(), ByteBudget(1 << 20), KEYS, **declared)
    assert refused.value.error.status == 403

    with pytest.raises(Refused):
        read(pieces(UNSIGNED_BYTES, 1), ByteBudget(1 << 20), KEYS, **headers)


def test_with_a_known_key_it_is_read_and_a_small_one_is_without() -> None:
    large = UNSIGNED_BYTES + 1

    assert len(read(pieces(large), ByteBudget(1 << 20), KEYS, **signed("AKIDONE"))) == large
    assert len(read(pieces(100), ByteBudget(1 << 20), KEYS)) == 100


def test_a_body_above_the_limit_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        read(pieces(), ByteBudget(1), content_length=str(MOST_BODY_BYTES + 1))

    assert refused.value.error.status == 413
