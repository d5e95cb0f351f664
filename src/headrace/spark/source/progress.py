"""A stream's progress as a consumer group's offsets, so that its lag shows in every Kafka tool.

Rule 1: Spark's checkpoint decides where a query continues. The group's offsets are never read back.
Rule 2: a commit that fails never fails the query, and delays it only briefly: it is logged once and
retried later.
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

COMMIT_TIMEOUT_MS: Final = 5_000
"""How long one commit may delay a micro-batch. A broker that has never had a group first creates
`__consumer_offsets`, which takes a second or two."""

RETRY_AFTER_SECONDS: Final = 30.0
"""How long to wait after a failed commit before the next."""


class Progress:
    """Commits the offsets that a stream has processed.

    The group has no members: tools show it as Empty, with offsets and lag. A group with members
    belongs to another application, and its coordinator refuses the commit.
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
        self._retry_at = 0.0
        self._warned = False

    def reached(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit that everything before these offsets has been processed."""
        changed = {each: at for each, at in offsets.items() if self._committed.get(each) != at}
        if not changed or self._clock() < self._retry_at:
            return
        try:
            self._commit(changed)
        except ClientError as error:
            self._fail(error)
        else:
            self._committed |= changed
            self._warned = False

    def close(self) -> None:
        """Disconnect."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._pool is None:
            settings = ClientSettings.of(self._client)
            timeout_ms = min(settings.api_timeout_ms, COMMIT_TIMEOUT_MS)
            self._pool = ConnectionPool(
                replace(
                    settings,
                    api_timeout_ms=timeout_ms,
                    request_timeout_ms=min(settings.request_timeout_ms, timeout_ms),
                )
            )
            # The pool retries only on a cluster that has responded once.
            self._pool.metadata(())
        for error in GroupAdmin(self._pool).commit(self._group, offsets).values():
            if error is not None:
                raise error

    def _fail(self, error: ClientError) -> None:
        self.close()
        self._retry_at = self._clock() + RETRY_AFTER_SECONDS
        if not self._warned:
            self._warned = True
            _LOG.warning(
                "progress_commit_failed group=%s error=%r advice=%r",
                self._group,
                str(error),
                "set kafka.group.id or groupIdPrefix to another group, or commitProgress to false",
            )
