"""Publishes how far tables are, as offsets of a group: for the console and `headrace lag`.

Rule 1: it only shows progress. A landing reads nothing but the offsets in its table, so it does no
harm if this fails.
Rule 2: a topic whose table cannot be read keeps the offsets that were published before.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.client.error import ClientError
from headrace.client.group.group_admin import CommittedOffset, GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.landing.configured.landing_status import GROUP, LandingStatus
from headrace.landing.configured.topic_landing import TopicLanding
from headrace.model.ids import TopicPartition

# Offsets of a group without members expire; and this shows that the process lives.
_REPUBLISH_SECONDS: Final = 60.0
_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class _Published:
    offsets: Mapping[int, int]
    status: LandingStatus
    at: float


class StatusGroup:
    """What was published of each topic.

    Args:
        warn: called with a sentence when nothing can be published, once per reason.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._published: dict[str, _Published] = {}
        self._refused: frozenset[str] = frozenset()
        self._before: Mapping[TopicPartition, CommittedOffset] | None = None
        self._problem: str | None = None

    def publish(self, pool: ConnectionPool, landings: Iterable[TopicLanding], now_ms: int) -> None:
        """Publish what has changed."""
        if self._before is None:
            self._try(lambda: self._read(pool))
        if self._before is None:
            return
        now = time.monotonic()
        changed: dict[str, _Published] = {}
        # Those that were refused come last, so that they keep no others from being published.
        for landing in sorted(landings, key=lambda each: each.configured.name in self._refused):
            name = landing.configured.name
            new = _Published(self._offsets(landing), landing.status(now_ms), now)
            old = self._published.get(name)
            if old is None or now - old.at > _REPUBLISH_SECONDS or _shown(old) != _shown(new):
                changed[name] = new
                if len(changed) >= _AT_ONCE:
                    break  # the others come next time
        if changed:
            self._try(lambda: self._commit(pool, changed))

    def forget(self, pool: ConnectionPool, topic: str, partitions: list[TopicPartition]) -> None:
        """Remove a topic that no longer lands."""
        if self._published.pop(topic, None) is not None:
            self._try(lambda: GroupAdmin(pool).delete_offsets(GROUP, partitions))

    def _offsets(self, landing: TopicLanding) -> Mapping[int, int]:
        known = landing.known_offsets()
        if known is not None:
            return {each: known.get(each, 0) for each in landing.configured.partitions}
        before = self._before or {}
        found = {each: before.get(each) for each in landing.partitions}
        return {
            each.partition: 0 if committed is None else committed.offset
            for each, committed in found.items()
        }

    def _read(self, pool: ConnectionPool) -> None:
        self._before = GroupAdmin(pool).committed(GROUP)

    def _commit(self, pool: ConnectionPool, changed: Mapping[str, _Published]) -> None:
        offsets: dict[TopicPartition, int] = {}
        texts: dict[TopicPartition, str] = {}
        for name, each in changed.items():
            places = {TopicPartition(name, at): offset for at, offset in each.offsets.items()}
            offsets |= places
            if places:
                texts[min(places)] = each.status.as_text()
        errors = GroupAdmin(pool).commit(GROUP, offsets, metadata=texts)
        refused = {each.topic: error for each, error in errors.items() if error is not None}
        self._published |= {name: each for name, each in changed.items() if name not in refused}
        self._refused = frozenset(refused)
        if refused:
            raise next(iter(refused.values()))

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
            self._problem = None
        except ClientError as error:
            sentence = str(error)
            if sentence != self._problem:
                self._problem = sentence
                self._warn(
                    f"the progress of tables cannot be shown in the group {GROUP}: {sentence}; "
                    "topics land all the same"
                )


def _shown(published: _Published) -> tuple[object, ...]:
    """Return what is worth publishing at once."""
    status = replace(published.status, seen_ms=0, complete_ms=None)
    return published.offsets, status
