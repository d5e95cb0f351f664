"""The topics between callers and a DRPC function, and the ids of requests.

    drpc-<function>-requests    key: the request's id, value: its argument
    drpc-<function>-replies     key: the request's id, value: the result
    drpc-<function>-failures    dead letters: a tuple that a bolt raised for, and the error

A request's id is `<deadline in milliseconds>-<random>`. A function that was down for a while skips
requests whose callers have given up.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.wire.error_code import ErrorCode

MAX_ARGUMENT_BYTES = 512 * 1024
"""Well below what a broker takes for one record."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class DrpcError(FlowError):
    """A call that got no result."""


class DrpcTimeout(DrpcError):
    """No reply came in time."""


class DrpcFailed(DrpcError):
    """The function failed; the message is its error."""


class DrpcBusy(DrpcError):
    """Too many calls wait already: try again later."""


class UnknownFunction(DrpcError):
    """The topics of such a function do not exist."""


@dataclass(frozen=True, slots=True)
class FunctionTopics:
    """The topics of one function."""

    function: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.function):
            raise FlowError(
                f"a function cannot be called {self.function[:120]!r}: use up to 100 letters,"
                " digits, dots, dashes and underscores"
            )

    @property
    def requests(self) -> str:
        return f"drpc-{self.function}-requests"

    @property
    def replies(self) -> str:
        return f"drpc-{self.function}-replies"

    @property
    def failures(self) -> str:
        return f"drpc-{self.function}-failures"

    def create(
        self, brokers: str, partitions: int = 1, *, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create the topics that are missing. Several tasks read requests of several partitions.

        Args:
            settings: of the client, such as sasl.username.
        """
        topics = [
            NewTopic(self.requests, partitions, configs=_SHORT),
            NewTopic(self.replies, 1, configs=_SHORT),
            NewTopic(self.failures, 1, configs=_SHORT),
        ]
        with ConnectionPool(
            ClientSettings.of({**(settings or {}), "bootstrap.servers": brokers})
        ) as pool:
            for error in Admin(pool).create_topics(topics).values():
                if error is not None and error.code is not ErrorCode.topic_already_exists:
                    raise error

    def exists(self, brokers: str, *, settings: Mapping[str, str] | None = None) -> bool:
        """Return whether all three topics exist."""
        names = [self.requests, self.replies, self.failures]
        with ConnectionPool(
            ClientSettings.of({**(settings or {}), "bootstrap.servers": brokers})
        ) as pool:
            topics = pool.metadata(names).topics
        known = [topics.get(each) for each in names]
        return all(each is not None and each.error is None for each in known)


# Requests and replies are read once.
_SHORT = {"retention.ms": "3600000"}


def new_request(deadline_ms: int) -> str:
    """Return the id of a new request."""
    return f"{deadline_ms}-{uuid.uuid4().hex}"


def deadline_of(request: str | None) -> int:
    """Return until when the caller waits; 0 if the text is no id of a request."""
    text = (request or "").partition("-")[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
