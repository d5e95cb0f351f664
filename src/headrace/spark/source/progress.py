"""A stream's progress as a consumer group's offsets, so that its lag shows in every Kafka tool.

Rule 1: Spark's checkpoint is the truth. Nothing ever reads the group's offsets back.
Rule 2: a commit that fails never fails the query, nor holds it up for long: it is told once, and
tried again later.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from headrace.client.error import ClientError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition

_LOG = logging.getLogger("headrace.spark")

PATIENCE_MS: Final = 5_000
"""How long one commit may hold up a micro-batch. A broker that has never had a group first creates
`__consumer_offsets`, which takes a second or two."""

REST_SECONDS: Final = 30.0
"""How long to leave a coordinator alone that did not take a commit."""


class Progress:
    """Commits where a stream has come to.

    The group has no members: a tool shows it as Empty, with offsets and lag. A group that has some
    belongs to somebody else and refuses.
    """

    def __init__(
        self,
        group: str,
        client: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._group = group
        self._client = dict(client)
        self._clock = clock
        self._pool: ConnectionPool | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._resting_until = 0.0
        self._told = False

    def reached(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Everything before these offsets has been processed."""
        changed = {each: at for each, at in offsets.items() if self._committed.get(each) != at}
        if not changed or self._clock() < self._resting_until:
            return
        try:
            self._commit(changed)
        except ClientError as error:
            self._fail(error)
        else:
            self._committed |= changed
            self._told = False

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._pool is None:
            settings = ClientSettings.of(self._client)
            patience_ms = min(settings.api_timeout_ms, PATIENCE_MS)
            self._pool = ConnectionPool(
                replace(
                    settings,
                    api_timeout_ms=patience_ms,
                    request_timeout_ms=min(settings.request_timeout_ms, patience_ms),
                )
            )
            # Only a cluster that has answered once is asked again.
            self._pool.metadata(())
        for error in GroupAdmin(self._pool).commit(self._group, offsets).values():
            if error is not None:
                raise error

    def _fail(self, error: ClientError) -> None:
        self.close()
        self._resting_until = self._clock() + REST_SECONDS
        if not self._told:
            self._told = True
            _LOG.warning(
                "progress cannot be committed to group %s, its lag will be out of date: %s; "
                "set kafka.group.id or groupIdPrefix to another group, or commitProgress to false",
                self._group,
                error,
            )
