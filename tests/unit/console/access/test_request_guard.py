"""The bound of a body."""

import anyio
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
