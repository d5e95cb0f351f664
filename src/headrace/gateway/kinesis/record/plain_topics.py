"""Plain Kafka topics that are shown as streams."""

import threading
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.stream.stream_state import StreamState, plain_stream
from headrace.model.config_code import ConfigResourceType

_KEPT_SECONDS: Final = 2.0
_LIMIT_SECONDS: Final = 30.0
_INTERNAL: Final = ("__", "headrace.")


class PlainTopics:
    """The topics that match the patterns, asked for at most every two seconds.

    Internal topics never match: their records are state, and a put would change it.
    """

    def __init__(self, settings: ClientSettings, patterns: Sequence[str]) -> None:
        self._settings = settings
        self._patterns = patterns
        self._lock = threading.Lock()
        self._known: dict[str, StreamState] = {}
        self._known_at = float("-inf")
        self._limits: dict[str, int] = {}
        self._limits_at = float("-inf")

    def matches(self, name: str) -> bool:
        return not name.startswith(_INTERNAL) and any(
            fnmatchcase(name, pattern) for pattern in self._patterns
        )

    def streams(self) -> dict[str, StreamState]:
        """Return the topics as streams.

        Raises:
            ClientError: no broker can be reached.
        """
        if not self._patterns:
            return {}
        with self._lock:
            if time.monotonic() - self._known_at > _KEPT_SECONDS:
                self._known = self._fetch()
                self._known_at = time.monotonic()
            return self._known

    def _fetch(self) -> dict[str, StreamState]:
        with ConnectionPool(self._settings) as pool:
            topics = {
                name: topic
                for name, topic in pool.metadata().topics.items()
                if topic.error is None and topic.partitions and self.matches(name)
            }
            is_old = time.monotonic() - self._limits_at > _LIMIT_SECONDS
            if is_old or topics.keys() - self._known.keys():
                self._limits = _limits(pool, list(topics))
                self._limits_at = time.monotonic()
        return {
            name: plain_stream(name, len(topic.partitions), self._limits.get(name))
            for name, topic in topics.items()
        }

    def exists(self, name: str) -> bool:
        """Return whether any topic has this name, exposed or not.

        Raises:
            ClientError: no broker can be reached.
        """
        with ConnectionPool(self._settings) as pool:
            found = pool.metadata([name]).topics.get(name)
        if found is None:
            return False
        if found.error is not None and found.partitions:
            raise ClientError(f"topic {name}: {found.error}")
        return found.error is None


def _limits(pool: ConnectionPool, topics: Sequence[str]) -> dict[str, int]:
    """Return `max.message.bytes` of topics; of none if the gateway may not read configurations."""
    if not topics:
        return {}
    try:
        found = Admin(pool).describe_configs(ConfigResourceType.TOPIC, topics)
    except ClientError:  # batches that are too large are divided all the same
        return {}
    return {
        name: int(entry.value)
        for name, entries in found.items()
        if not isinstance(entries, BrokerError)
        for entry in entries
        if entry.name == "max.message.bytes" and entry.value
    }
