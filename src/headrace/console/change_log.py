"""Logs every change that a user makes through the console to a topic, before it is made.

A change that cannot be logged is not made. Its outcome follows as a second record with the same id.
Payloads are never logged.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import pyarrow as pa

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.console.access.user import User
from headrace.model.clock import Clock
from headrace.model.error import HeadraceError
from headrace.wire.error_code import ErrorCode

TOPIC: Final = "headrace.console.changes"
_A_YEAR_MS: Final = 365 * 24 * 60 * 60 * 1000


class ChangeLog:
    """Writes to the topic, which is created before the first change."""

    def __init__(self, settings: ClientSettings, clock: Clock, topic: str = TOPIC) -> None:
        self._settings = settings
        self._clock = clock
        self.topic = topic
        self._lock = Lock()
        self._ready = False

    @contextmanager
    def change(
        self, pool: ConnectionPool, user: User, action: str, target: str, detail: Mapping[str, Any]
    ) -> Iterator[None]:
        """Log a change, which the `with` block makes.

        Raises:
            ClientError: the change could not be logged, and was not made.
        """
        entry = {
            "id": str(uuid.uuid4()),
            "user": user.name,
            "action": action,
            "target": target,
            "detail": dict(detail),
        }
        try:
            self._write(pool, entry | {"phase": "asked"})
        except ClientError as error:
            raise ClientError(
                f"nothing was changed, because the change could not be written to topic "
                f"{self.topic}: {error}"
            ) from error
        try:
            yield
        except HeadraceError as error:
            self._write(pool, entry | {"phase": "failed", "error": str(error)})
            raise
        self._write(pool, entry | {"phase": "done"})

    def _write(self, pool: ConnectionPool, entry: Mapping[str, Any]) -> None:
        with self._lock:
            if not self._ready:
                self._create_topic(pool)
            value = json.dumps({"at_ms": self._clock.wall_ms(), **entry}).encode()
            key = str(entry["target"]).encode()
            with Writer(self._settings, self.topic) as writer:
                writer.write(pa.table({"key": [key], "value": [value]}))

    def _create_topic(self, pool: ConnectionPool) -> None:
        new = NewTopic(self.topic, 1, configs={"retention.ms": str(_A_YEAR_MS)})
        error = Admin(pool).create_topics([new])[self.topic]
        if isinstance(error, BrokerError) and error.code is not ErrorCode.topic_already_exists:
            raise error
        self._ready = True
