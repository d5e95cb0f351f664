"""What the driver asks the cluster: which partitions there are, and where they begin and end."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
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
"""How long a list of partitions is good for. An idle stream asks a hundred times a second."""

GONE_SECONDS: Final = 3.0
"""How long a partition must be missing until it is gone. A broker that has just started, or is cut
off, does not know of all; and a partition that is believed gone and comes back counts as a new one,
which is read from its beginning again."""

_ASK_AGAIN_SECONDS: Final = 0.2
_NOT_FOUND = -1


class OffsetFinder:
    """One cluster, seen through the options of a source. Connects when it is first asked."""

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

    def partitions(self) -> list[TopicPartition]:
        """Those there are, for a read that starts.

        Raises:
            TopicMissing: what shall be read is not there.
        """
        return self._options.choice.partitions(self._connected())

    def remaining_partitions(self) -> list[TopicPartition]:
        """Those there are, for a stream that runs: new ones are found, missing ones left out."""
        now = self._clock()
        if self._listed_at is None or now - self._listed_at >= NEW_PARTITIONS_SECONDS:
            self._listed = self._options.choice.partitions(self._connected(), missing_ok=True)
            self._listed_at = now
        return self._listed

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The start of each log; partitions that are gone are left out."""
        times = dict.fromkeys(partitions, EARLIEST)
        return self._asked_until_there(partitions, lambda: self._there(times))

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The end of each log as far as it may be read; those nobody knows of are left out."""
        return self._there(dict.fromkeys(partitions, LATEST))

    def latest_after(self, known: Mapping[TopicPartition, int]) -> Offsets:
        """The ends of everything there is, asked again while one lies before what is known, or
        something that is known is missing.

        A new leader may not know the high watermark for a moment.
        """

        def ask() -> Offsets:
            return self.latest(self.remaining_partitions())

        found = self._asked_until_there(known, ask)
        for _ in range(self._options.fetch_retries):
            if all(known.get(each, 0) <= end for each, end in found.items()):
                break
            self._sleep(self._options.fetch_retry_ms / 1000)
            found = self._asked_until_there(known, ask)
        return found

    def starts(self, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> Offsets:
        """Where to begin.

        Raises:
            ConfigError: the limit does not fit the partitions, or no record is young enough.
        """
        name = _name_of("starting", limit)
        return self._resolve(name, limit, partitions, self._options.latest_if_none_match)

    def ends(self, limit: OffsetLimit, partitions: Collection[TopicPartition]) -> Offsets:
        """Where to end. Where no record is as young as a time, that is the end of the log."""
        return self._resolve(_name_of("ending", limit), limit, partitions, True)

    def not_older(self, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
        """The first offset of each whose record is not older; without one, the partition is left
        out."""
        found = self._found(dict.fromkeys(partitions, time_ms))
        return {each: offset for each, offset in found.items() if offset != _NOT_FOUND}

    def close(self) -> None:
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
                return self._found(dict.fromkeys(partitions, offset))
            case EachPartition(offsets):
                _check_all(name, offsets, partitions)
                special = {each: at for each, at in offsets.items() if at < 0}
                return {**offsets, **self._found(special)}
            case EveryTime(time_ms):
                times: Mapping[TopicPartition, int] = dict.fromkeys(partitions, time_ms)
            case EachTime(times):
                _check_all(name, times, partitions)
        found = self._found(times)
        none = [each for each, offset in found.items() if offset == _NOT_FOUND]
        if none and not latest_if_none:
            raise ConfigError(
                f"option {name}: {none[0]} has no record that is as young as {times[none[0]]}; "
                "to begin at its end, set startingOffsetsByTimestampStrategy to latest"
            )
        return {**found, **self._found(dict.fromkeys(none, LATEST))}

    def _found(self, times: Mapping[TopicPartition, int]) -> Offsets:
        found: Offsets = {}
        for each, answer in self._ask(times).items():
            if not isinstance(answer, FoundOffset):
                raise ClientError(f"the offsets of {each} cannot be found: {answer}") from answer
            found[each] = answer.offset
        return found

    def _asked_until_there(
        self, wanted: Collection[TopicPartition], ask: Callable[[], Offsets]
    ) -> Offsets:
        """The answer once all that is wanted is in it, or what is missing must be gone. What is
        known to be gone is not waited for again."""
        deadline = self._clock() + GONE_SECONDS
        found = ask()
        while missing := set(wanted) - found.keys() - self._gone:
            if self._clock() >= deadline:
                self._gone |= missing
                break
            self._sleep(_ASK_AGAIN_SECONDS)
            self._listed_at = None
            self._connected().metadata({each.topic for each in missing})
            found = ask()
        self._gone -= found.keys()
        return found

    def _there(self, times: Mapping[TopicPartition, int]) -> Offsets:
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
    """That a source with these options would find its topics.

    Raises:
        TopicMissing: it would not.
        ClientError: the brokers do not answer.
    """
    finder = OffsetFinder(SourceOptions.of(options))
    try:
        finder.partitions()
    finally:
        finder.close()
