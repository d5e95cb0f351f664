"""What a command asks of a flow in a cluster, as a record in the topic of requests.

Rule 1: a request names the run and the driver's process. A later process of the flow ignores it.
Rule 2: the command that stops waiting withdraws its request with a second record. What the driver
        has not begun by then is not done.
"""

import json
import re
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

MAX_BYTES: Final = 64 * 1024
_MAX_WAITING: Final = 16
_MAX_REMEMBERED: Final = 256
_ID: Final = re.compile(r"[0-9a-f]{32}")


class Action(StrEnum):
    """What a driver can be asked for."""

    STOP = "stop"
    RESTART = "restart"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    REBALANCE = "rebalance"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRequest:
    """One request.

    Attributes:
        id: 32 hex digits of its own; a withdrawal has the id of the request that it takes back.
        target: the run, and the driver's process, that it is for (`RemoteRun.target`).
        now: of a stop: interrupt the batch.
        parallelism, partitions: of a rebalance, as `RunFolder.rebalance` takes them.
    """

    action: Action
    target: str
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    now: bool = False
    parallelism: Mapping[str, int] = field(default_factory=dict)
    partitions: int | None = None

    def to_value(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_value(cls, value: bytes | None) -> "RemoteRequest | None":
        """Return the request of a record; None if it is none of ours."""
        if value is None or len(value) > MAX_BYTES:
            return None
        try:
            content = json.loads(value)
            request = cls(
                action=Action(content["action"]),
                target=content["target"],
                id=content["id"],
                now=content["now"],
                parallelism=content["parallelism"],
                partitions=content["partitions"],
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return request if _has_types(request) else None


def _has_types(request: RemoteRequest) -> bool:
    tasks: Any = request.parallelism
    return (
        type(request.target) is str
        and type(request.id) is str
        and _ID.fullmatch(request.id) is not None
        and type(request.now) is bool
        and (request.partitions is None or type(request.partitions) is int)
        and type(tasks) is dict
        and all(type(each) is int for each in tasks.values())
    )


class RequestQueue:
    """The requests that wait in a driver, in their order. Pure.

    Args:
        target: the run and its driver's process.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._waiting: deque[RemoteRequest] = deque()
        self._known: deque[str] = deque(maxlen=_MAX_REMEMBERED)

    def add(self, request: RemoteRequest) -> str | None:
        """Add a request or a withdrawal; return why a request is refused."""
        if request.target != self._target:
            return None
        if request.action is Action.WITHDRAW:
            self._waiting = deque(each for each in self._waiting if each.id != request.id)
            return None
        if request.id in self._known:
            return None  # sent again by a client that saw no acknowledgement
        self._known.append(request.id)
        if len(self._waiting) >= _MAX_WAITING:
            return f"{_MAX_WAITING} requests wait already: try again later"
        self._waiting.append(request)
        return None

    def take(self) -> RemoteRequest | None:
        """Return the oldest request, which waits no more."""
        return self._waiting.popleft() if self._waiting else None
