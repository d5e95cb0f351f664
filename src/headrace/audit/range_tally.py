"""Counts of one range of offsets, under a name that every reading of that range shares.

A reader that processes a partition range by range reads a range again after a crash, and counts it
again. Its counts are named after the range: the reader, the partition and the first offset. So they
are added once, however often the range is read, and no reader has to remember what was counted.
"""

from dataclasses import replace
from typing import Any

import structlog

from headrace.audit.publication import Publication
from headrace.audit.record import AuditRecord
from headrace.audit.tally import Tally
from headrace.audit.target import AuditTarget
from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition

_log = structlog.get_logger(__name__)


class RangeTally:
    """Counts a range, to be written when it was read to its end. For one thread.

    Args:
        reader: who reads, the same over restarts: the id of a query.
        start: the first offset of the range.
        begins: whether the reader may have left out what lies before the range.
    """

    def __init__(
        self,
        target: AuditTarget,
        reader: str,
        partition: TopicPartition,
        start: int,
        *,
        begins: bool = False,
    ) -> None:
        self._target = target
        self._reader = reader
        self._partition = partition
        self._start = start
        self._begins = begins
        self._tally = Tally(target.tier, bucket_ms=target.bucket_ms)

    def count(self, timestamps_ms: Any) -> None:
        """Count a numpy column of int64 times."""
        self._tally.count_column(self._partition.topic, timestamps_ms)

    def take(self) -> list[AuditRecord]:
        """Return what was counted since the last call."""
        counted = self._tally.take()
        first_ms = min((each.bucket_ms for each in counted), default=0)
        return [
            replace(
                each,
                instance=f"{self._reader}/{self._partition.partition}",
                sequence=self._start,
                begins=self._begins and each.bucket_ms == first_ms,
            )
            for each in counted
        ]

    def write(self, settings: ClientSettings) -> None:
        """Write the counts. If that fails the audit shows a loss, and the reader goes on."""
        records = self.take()
        try:
            _publication(settings, self._target.topic).write(records)
        except ClientError as error:
            _log.warning("audit_not_written", topic=self._target.topic, reason=str(error))


def _publication(settings: ClientSettings, topic: str) -> Publication:
    """Return the process's connection to the topic, kept from range to range.

    A process reads for one query at a time, so one connection is enough.
    """
    if not _kept or (_kept[0].settings, _kept[0].topic) != (settings, topic):
        for each in _kept:
            each.close()
        _kept[:] = [Publication(settings, topic)]
    return _kept[0]


_kept: list[Publication] = []
