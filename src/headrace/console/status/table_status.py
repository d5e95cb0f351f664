"""The table of a topic as the page shows it: its rows, and how far it is behind."""

from collections.abc import Mapping
from typing import Any, Final

from headrace.client.group.group_admin import CommittedOffset
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.landing_status import LandingStatus
from headrace.model.ids import TopicPartition

_LONGEST: Final = 2_000
# A process reports every minute, and whenever something changes.
_SILENT_MS: Final = 180_000


def table_status(
    configured: ConfiguredTopic,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[str, Any]:
    """Return the fields of a table.

    Args:
        committed: what `headrace land --configured` has committed, of all topics.
        ends: the end offsets of partitions.
    """
    places = [TopicPartition(configured.name, each) for each in configured.partitions]
    found = {each: committed[each] for each in places if each in committed}
    texts = (LandingStatus.of(each.metadata) for each in found.values() if each.metadata)
    table = str(configured.table.name)
    # What was reported of another table says nothing about this one.
    status = next((each for each in texts if each is not None and each.table == table), None)
    lag = None
    if status is not None and len(found) == len(places) and all(each in ends for each in places):
        lag = sum(max(0, ends[each] - one.offset) for each, one in found.items())
    return {
        "topic": configured.name,
        "table": table,
        "format": configured.table.format,
        "freshness_ms": configured.table.freshness_ms,
        "state": _state(status, now_ms),
        "lag": lag,
        "rows": None if status is None else status.rows,
        "dead_letters": None if status is None else status.dead_letters,
        "landed_ms": None if status is None else status.landed_ms,
        "complete_ms": None if status is None else status.complete_ms,
        "problem": None if status is None else (status.problem or "")[:_LONGEST] or None,
    }


def _state(status: LandingStatus | None, now_ms: int) -> str:
    if status is None or now_ms - status.seen_ms > _SILENT_MS:
        return "silent"
    return "failing" if status.problem else "landing"
