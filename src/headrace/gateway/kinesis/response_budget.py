"""The bytes of responses that clients have not read yet. For one event loop.

Rule 1: a read takes what the largest response needs before it begins, and returns what it does not
need when it knows how large its response is.
Rule 2: each client has a budget of its own, less than that of all, and waits for it first. So one
that reads slowly holds up itself, and others find room. A client is an access key, or an address
where no keys are configured.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from headrace.gateway.http.asgi import Scope
from headrace.gateway.http.byte_budget import ByteBudget, Share
from headrace.gateway.kinesis.access.signature import check_credential
from headrace.gateway.kinesis.error import ServiceError, throughput_exceeded
from headrace.gateway.kinesis.request_body import busy

_LARGEST: Final = 15 << 20
_MOST: Final = 9 * _LARGEST
_MOST_OF_CLIENT: Final = 6 * _LARGEST
_SECONDS: Final = 10.0


class ResponseBudget:
    """What all clients share, and what each of them may use of it.

    Example:
        with budget.reserve("AKIDCLICKS") as reserve:
            await reserve.take()
            reserve.shrink(len(body))
    """

    def __init__(self) -> None:
        self._all = ByteBudget(_MOST)
        self._clients: dict[str, tuple[ByteBudget, int]] = {}

    @contextmanager
    def reserve(self, client: str) -> "Iterator[Reserve]":
        """Lend an empty reserve for one response; what it has taken is returned at the end."""
        own, users = self._clients.get(client) or (ByteBudget(_MOST_OF_CLIENT), 0)
        self._clients[client] = (own, users + 1)
        reserve = Reserve(own.share(), self._all.share())
        try:
            yield reserve
        finally:
            reserve.shrink(0)
            own, users = self._clients.pop(client)
            if users > 1:
                self._clients[client] = (own, users - 1)


class Reserve:
    """The bytes of one response, in the budget of its client and in that of all."""

    def __init__(self, own: Share, common: Share) -> None:
        self._own = own
        self._common = common

    async def take(self) -> None:
        """Take what the largest response needs.

        Raises:
            ServiceError: this client, or all together, have not read enough of their responses.
        """
        try:
            await asyncio.wait_for(self._own.take(_LARGEST), _SECONDS)
        except TimeoutError:
            raise throughput_exceeded(
                "Too many responses wait for this client to read them."
            ) from None
        try:
            await asyncio.wait_for(self._common.take(_LARGEST), _SECONDS)
        except TimeoutError:
            raise busy() from None

    def shrink(self, size: int) -> None:
        """Return all but so many bytes."""
        self._own.shrink(size)
        self._common.shrink(size)


def client_name(scope: Scope, headers: Mapping[str, str], keys: Mapping[str, str] | None) -> str:
    """Return whose budget a response is of."""
    if keys is not None:
        try:
            return f"key {check_credential(headers, keys, time.time()).key_id}"
        except ServiceError:
            pass  # the request will be refused
    client = scope.get("client")
    return f"address {client[0] if client else ''}"
