"""Sends a write on to the leader, as Confluent's registries do among each other."""

import http.client
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.gateway.registry.error import forwarding_failed
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.store.identity import Identity

OFFSET_HEADER: Final = "X-Headrace-Offset"
"""How far the topic must be read to see what was written."""

_SECONDS: Final = 60.0
_MOST_ANSWER_BYTES: Final = 32 << 20
_PASSED_ON: Final = ("authorization", "content-type", "accept")


@dataclass(frozen=True, slots=True)
class ForwardedAnswer:
    """What the leader has answered.

    Attributes:
        offset: of the last record that it has written for it; -1 if it says none.
    """

    status: int
    content_type: str
    body: bytes
    offset: int = -1


class Forwarder:
    """Calls other instances. Threads: any; each call has a connection of its own.

    Args:
        authority: PEM file by which the certificates of the others are checked.
        peers: the addresses that requests may be sent to, for they carry users' secrets; None for
            any, where there are no users.
    """

    def __init__(self, authority: Path | None = None, peers: frozenset[str] | None = None) -> None:
        self._authority = authority
        self._peers = peers

    def forward(self, leader: Identity, request: Request) -> ForwardedAnswer:
        """Send a request on and return the answer.

        Raises:
            RegistryError: 50003, the leader is not trusted, cannot be reached, or does not answer.
        """
        if self._peers is not None and leader.url.lower() not in self._peers:
            raise forwarding_failed(
                f"The leader at {leader.url} is no peer of this registry, which sends users' "
                f"secrets to peers only: start it with --peer {leader.url} if it is one of yours"
            )
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers["X-Forward"] = "true"
        connection = self._connect(leader)
        try:
            connection.request(request.method, request.target, request.raw_body or None, headers)
            answer = connection.getresponse()
            body = answer.read(_MOST_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise forwarding_failed(
                f"The leader at {leader.url} does not answer: {error!r}"
            ) from error
        finally:
            connection.close()
        if len(body) > _MOST_ANSWER_BYTES:
            raise forwarding_failed(f"The leader at {leader.url} answers with too much")
        return ForwardedAnswer(
            answer.status,
            answer.headers.get("Content-Type", "application/json"),
            body,
            _offset(answer.headers.get(OFFSET_HEADER, "")),
        )

    def _connect(self, leader: Identity) -> http.client.HTTPConnection:
        if leader.scheme != "https":
            return http.client.HTTPConnection(leader.host, leader.port, timeout=_SECONDS)
        context = ssl.create_default_context(cafile=self._authority)
        return http.client.HTTPSConnection(
            leader.host, leader.port, timeout=_SECONDS, context=context
        )


def _offset(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
