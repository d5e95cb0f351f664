"""Finds, on the driver, which partitions there are and where they begin and end."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.spark.source.cluster_topic_ids import ClusterTopicIds
from headrace.spark.source.offset_json import Offsets
from headrace.spark.source.offset_limit import (
    EARLIEST,
    LATEST,
    EachPartition,
    EachTime,
    EveryPartition,
    EveryTime,
    OffsetLimit,
)
from headrace.spark.source.option import SourceOptions
from headrace.wire.error_code import ErrorCode

NEW_PARTITIONS_SECONDS: Final = 1.0
"""How long a list of partitions is reused. An idle stream asks a hundred times per second."""

GONE_SECONDS: Final = 3.0
"""How long a partition must be missing until it counts as gone. A broker that has just started, or
is cut off, does not know all partitions; and one that counts as gone and comes back is read as a
new partition, from its beginning again."""

_ASK_AGAIN_SECONDS: Final = 0.2
_NOT_FOUND = -1


class OffsetFinder:
    """Looks up offsets for the options of one source. Connects on first use."""

    def __init__(
        self,
        options: SourceOptions,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._pool: ConnectionPool | None = None
        self._listed: list[TopicPartition] = []
        self._listed_at: float | None = None
        self._gone: set[TopicPartition] = set()
        self._topic_ids = ClusterTopicIds()
        self._replaced: dict[str, UUID] = {}

    @property
    def topic_ids(self) -> ClusterTopicIds:
        """The ids of the topics that were listed last."""
        return self._topic_ids

    def partitions(self) -> list[TopicPartition]:
        """Return the existing partitions, for a read that starts.

        Raises:
            TopicMissing: a topic or partition of the options does not exist.
        """
        found = self._options.choice.listing(self._connected())
        self._topic_ids = found.ids
        return found.partitions

    def remaining_partitions(self) -> list[TopicPartition]:
        """Return the existing partitions, for a running stream; missing ones are left out."""
        now = self._clock()
        if self._listed_at is None or now - self._listed_at >= NEW_PARTITIONS_SECONDS:
            found = self._options.choice.listing(self._connected(), missing_ok=True)
            self._listed, self._topic_ids = found
            self._listed_at = now
        return self._listed

    def replaced_topics(self, known: ClusterTopicIds) -> Collection[str]:
        """Return the topics that were deleted and created again since they had these ids.

        A broker that is behind has the id of the topic that was there before: an id counts as new
        when no other has come for as long as it takes a missing partition to count as gone.
        """
        if not known.by_topic:
            return ()
        deadline = self._clock() + GONE_SECONDS
        self.remaining_partitions()
        while (found := known.replaced_in(self._topic_ids)) and not (
            found.items() <= self._replaced.items()
        ):
            if self._clock() >= deadline:
                self._replaced = found
                break
            self._sleep(_ASK_AGAIN_SECONDS)
            self._listed_at = None
            self.remaining_partitions()
        return found.keys()

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the start of each log; partitions that are gone are left out."""
        times = dict.fromkeys(partitions, EARLIEST)
        return self._ask_until_complete(partitions, lambda: self._existing(times))

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Return the readable end of each log; partitions that no broker knows are left out."""
        return self._existing(dict.fromkeys(partitions, LATEST))

    def latest_after(self, known: Mapping[TopicPartition, int]) -> Offsets:
        """Return the ends of all partitions. Retries while an end lies before a known offset, or a
        known partition is missing.

        A new leader may not know the high watermark for a moment. Where only the last stable offset
        lies before a known offset, the known one is the end: a reader of uncommitted records was
        there, and a transaction is still open.
        """

        def ask() -> Offsets:
            return self.latest(self.remaining_partitions())

        found = self._not_before_known(known, self._ask_until_complete(known, ask))
        for _ in range(self._options.fetch_retries):
            if all(known.get(each, 0) <= end for each, end in found.items()):
                break
            self._sleep(self._options.fetch_retry_ms / 1000)
            found = self._not_before_known(known, self._ask_until_complete(known, ask))
        return found

    def starts(self, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> Offsets:
        """Return where to begin.

        Raises:
            ConfigError: the limit does not fit the partitions, or no record is young enough.
        """
        name = _name_of("starting", limit)
        return self._resolve(name, limit, partitions, self._options.latest_if_none_match)

    def ends(self, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> Offsets:
        """Return where to end: at the end of the log where no record is as young as a time."""
        return self._resolve(_name_of("ending", limit), limit, partitions, True)

    def not_older(self, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
        """Return the first offset of each partition whose record is not older than a time; without
        one, the partition is left out."""
        found = self._offsets(dict.fromkeys(partitions, time_ms))
        return {each: offset for each, offset in found.items() if offset != _NOT_FOUND}

    def close(self) -> None:
        """Disconnect."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _resolve(
        self,
        name: str,
        limit: OffsetLimit,
        partitions: Collection[TopicPartition],
        latest_if_none: bool,
    ) -> Offsets:
        match limit:
            case EveryPartition(offset):
                return self._offsets(dict.fromkeys(partitions, offset))
            case EachPartition(offsets):
                _check_all(name, offsets, partitions)
                special = {each: at for each, at in offsets.items() if at < 0}
                return {**offsets, **self._offsets(special)}
            case EveryTime(time_ms):
                times: Mapping[TopicPartition, int] = dict.fromkeys(partitions, time_ms)
            case EachTime(times):
                _check_all(name, times, partitions)
        found = self._offsets(times)
        none = [each for each, offset in found.items() if offset == _NOT_FOUND]
        if none and not latest_if_none:
            raise ConfigError(
                f"option {name}: {none[0]} has no record that is as young as {times[none[0]]}; "
                "to begin at its end, set startingOffsetsByTimestampStrategy to latest"
            )
        return {**found, **self._offsets(dict.fromkeys(none, LATEST))}

    def _offsets(self, times: Mapping[TopicPartition, int]) -> Offsets:
        found: Offsets = {}
        for each, answer in self._ask(times).items():
            if not isinstance(answer, FoundOffset):
                raise ClientError(f"the offsets of {each} cannot be found: {answer}") from answer
            found[each] = answer.offset
        return found

    def _ask_until_complete(
        self, expected: Collection[TopicPartition], ask: Callable[[], Offsets]
    ) -> Offsets:
        """Call `ask` until all expected partitions are in the result, or the missing ones count as
        gone. Partitions that count as gone are not waited for again."""
        deadline = self._clock() + GONE_SECONDS
        found = ask()
        while missing := set(expected) - found.keys() - self._gone:
            if self._clock() >= deadline:
                self._gone |= missing
                break
            self._sleep(_ASK_AGAIN_SECONDS)
            self._listed_at = None
            self._connected().metadata({each.topic for each in missing})
            found = ask()
        self._gone -= found.keys()
        return found

    def _not_before_known(self, known: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
        """Return the ends, and known offsets instead of those that only a transaction holds back.

        This asks for high watermarks only if there is such an end.
        """
        behind = [each for each, end in ends.items() if end < known.get(each, 0)]
        if not behind or not self._options.read_committed:
            return ends
        found = list_offsets(self._connected(), dict.fromkeys(behind, LATEST), read_committed=False)
        return ends | {
            each: known[each]
            for each, answer in found.items()
            if isinstance(answer, FoundOffset) and answer.offset >= known[each]
        }

    def _existing(self, times: Mapping[TopicPartition, int]) -> Offsets:
        found: Offsets = {}
        for each, answer in self._ask(times).items():
            if isinstance(answer, FoundOffset):
                found[each] = answer.offset
            elif not _is_gone(answer):
                raise ClientError(f"the offsets of {each} cannot be found: {answer}") from answer
        return found

    def _ask(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | ClientError]:
        if not times:
            return {}
        return list_offsets(self._connected(), times, read_committed=self._options.read_committed)

    def _connected(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = ConnectionPool(ClientSettings.of(self._options.client))
        return self._pool


def _is_gone(error: ClientError) -> bool:
    return isinstance(error, BrokerError) and error.code is ErrorCode.unknown_topic_or_partition


def _name_of(side: str, limit: OffsetLimit) -> str:
    if isinstance(limit, EveryTime):
        return f"{side}Timestamp"
    return f"{side}OffsetsByTimestamp" if isinstance(limit, EachTime) else f"{side}Offsets"


def _check_all(
    name: str, given: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
) -> None:
    odd = sorted(set(given) ^ set(partitions))
    if odd:
        what = "does not name" if odd[0] in set(partitions) else "names"
        which = "which is read" if odd[0] in set(partitions) else "which is not read, or not there"
        raise ConfigError(
            f"option {name} {what} {odd[0]}, {which}: name every partition that is read, with -1 "
            "for latest and -2 for earliest where offsets are given"
        )


def check_there(options: Mapping[str, str]) -> None:
    """Check that a source with these options finds its topics.

    Raises:
        TopicMissing: it does not.
        ClientError: no broker responds.
    """
    finder = OffsetFinder(SourceOptions.of(options))
    try:
        finder.partitions()
    finally:
        finder.close()
