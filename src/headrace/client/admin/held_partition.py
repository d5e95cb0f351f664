"""The partitions that brokers hold, as their log directories say: also those that are not shown.

Metadata shows a user the topics that it may describe, and only what the broker that is asked has
heard of. A broker that is to end must hold nothing else. A directory that is offline does not say
what it holds: it counts as nothing for a restart, and as anything for a broker that is to end.
"""

import time
from collections.abc import Collection, Iterable, Sequence

from headrace.client.admin.log_dir_admin import LogDir, LogDirAdmin
from headrace.client.error import ClientError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition

_POLL_SECONDS = 0.2
# Brokers hear of the end of a move within moments; on a machine that has much to do, later.
_HEAR_SECONDS = 30.0
_SHOWN = 5


def hidden_partitions(pool: ConnectionPool, brokers: Iterable[int]) -> list[TopicPartition]:
    """Return what these brokers hold and this user does not see: topics that it may not describe,
    and perhaps one that was created or deleted just now."""
    return _hidden(pool, LogDirAdmin(pool).describe(brokers))


def check_all_visible(pool: ConnectionPool, metadata: Metadata, leaving: int) -> None:
    """Refuse to empty a broker for a user that does not see all topics: those would stay there.

    Others are asked about a broker that is not running: they hold the other replicas.

    Raises:
        ClientError: naming partitions that are hidden, or a log directory that is offline.
    """
    asked = [leaving] if leaving in metadata.brokers else metadata.brokers
    hidden = _hidden(pool, _online(pool, asked, leaving))
    if hidden:
        raise ClientError(
            f"nothing is moved: {listed(hidden)} cannot be seen by this user, and would be lost "
            f"with broker {leaving}. Log in as one who may describe all topics; if a topic was "
            "created or deleted just now, run the command again"
        )


def check_empty(pool: ConnectionPool, broker: int, known: Collection[TopicPartition]) -> None:
    """Return when a broker holds nothing, after its replicas were moved.

    Args:
        known: the partitions that were there before the moves. Their move may have ended without
            all brokers having heard of it.

    Raises:
        ClientError: naming what it still holds: created there meanwhile, or not moved after all; or
            naming a log directory that is offline.
    """
    deadline = time.monotonic() + _HEAR_SECONDS
    while left := _left(pool, broker):
        if time.monotonic() > deadline or not set(left) <= set(known):
            raise ClientError(
                f"broker {broker} still has {listed(left)}: created or moved there meanwhile, or "
                "its move was cancelled. Do not remove the broker; run the command again"
            )
        time.sleep(_POLL_SECONDS)


def listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are."""
    shown = ", ".join(map(str, names[:_SHOWN]))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _left(pool: ConnectionPool, broker: int) -> list[TopicPartition]:
    metadata = pool.metadata()
    assigned = {
        topic.partition(index)
        for topic in metadata.topics.values()
        for index, partition in topic.partitions.items()
        if broker in partition.replicas
    }
    held = _partitions(_online(pool, [broker], broker)) if broker in metadata.brokers else set()
    return sorted(assigned | held)


def _hidden(pool: ConnectionPool, directories: Iterable[LogDir]) -> list[TopicPartition]:
    held = _partitions(directories)
    metadata = pool.metadata()
    return sorted(
        each
        for each in held
        if (topic := metadata.topics.get(each.topic)) is None
        or each.partition not in topic.partitions
    )


def _online(pool: ConnectionPool, brokers: Iterable[int], leaving: int) -> list[LogDir]:
    """Return the directories of these brokers, if all of them say what they hold."""
    directories = LogDirAdmin(pool).describe(brokers)
    for each in directories:
        if each.error is not None:
            stop = ", or stop it to give up what lies there" if each.broker == leaving else ""
            raise ClientError(
                f"broker {leaving} cannot be removed: what lies in {each.path} of broker "
                f"{each.broker} is not known, because that directory is offline ({each.error}). "
                f"Mend the disk and restart broker {each.broker}{stop}; then run the command again"
            )
    return directories


def _partitions(directories: Iterable[LogDir]) -> set[TopicPartition]:
    return {log.partition for each in directories for log in each.logs}
