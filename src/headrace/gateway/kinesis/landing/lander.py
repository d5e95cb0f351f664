"""Lands the channels of a cluster: takes over those that no gateway lands, and ends deleted ones.

| status | what is done | by | next |
|---|---|---|---|
| CREATING | check the bucket, find where the open shards end | any that can land | ACTIVE |
| ACTIVE | read, write files | its owner | |
| UPDATING | go on with the new freshness | its owner | ACTIVE |
| DELETING | forget it | its owner, or any if that is gone | no record |

Rule 1: the owner of a channel has a lease record written every second. One that is not heard of for
`_SILENT_SECONDS` is replaced. Two owners at once do no harm (`channel_state`, rule 2).
Rule 2: a failure is tried again, less and less often, and DescribeChannel has the reason. Only a
channel that cannot be created within `_CREATE_SECONDS` has failed.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import structlog

from headrace.client.read.offset_lookup import LATEST
from headrace.gateway.kinesis.channel.channel_state import ChannelState, ChannelStatus
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.landing.channel_lander import (
    ChannelLander,
    Superseded,
    source_of,
)
from headrace.gateway.kinesis.landing.destination import Destination
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.model.ids import TopicPartition

log = structlog.get_logger()

_LOOK_SECONDS: Final = 0.2
_BEAT_SECONDS: Final = 1.0
_SILENT_SECONDS: Final = 5.0
_CREATE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY: Final = 30.0
_FRESH_SECONDS: Final = 3.0
_THREADS: Final = 8
_MOST_FILE_BYTES: Final = 32 << 20
_LEAST_FILE_BYTES: Final = 4 << 20
_ALL_BYTES: Final = 128 << 20
_MOST_REASON: Final = 500


class Lander:
    """Threads that land channels.

    Args:
        destination: None if this gateway has no place for files: it then only forgets deleted
            channels that have no owner.
    """

    def __init__(self, service: KinesisService, destination: Destination | None) -> None:
        self._service = service
        self._destination = destination
        self._landers: dict[str, ChannelLander] = {}
        self._busy: set[str] = set()
        self._not_before: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stopping = False
        self._wakeup = threading.Event()
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="kinesis-landing")
        self._thread = threading.Thread(target=self._run, name="kinesis-lander", daemon=True)

    def start(self) -> None:
        self._service.store.tail.listen(self._wakeup.set)
        self._thread.start()

    def stop(self) -> None:
        """End, and let others take over at once. What is in no file yet is read again by them."""
        self._stopping = True
        if self._thread.ident is not None:
            self._wakeup.set()
            self._thread.join(timeout=10)
        self._workers.shutdown(wait=True, cancel_futures=True)
        tail = self._service.store.tail
        if lease_clock() - tail.confirmed_at < _FRESH_SECONDS:  # else the cluster may not answer
            # Those that were claimed a moment ago have no lander yet.
            for channel in list(self._service.channels.channels.values()):
                if self._is_own(channel):
                    self._release(channel.name)

    def _release(self, name: str) -> None:
        own = self._service.store.tail.instance

        def step(current: ChannelState | None) -> ChannelState | None:
            return current if current is None or current.owner != own else current.released()

        try:
            self._service.channels.change(name, step)
        except ServiceError as error:
            log.warning("kinesis_channel_not_released", channel=name, error=str(error))

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._look()
            except Exception:  # a thread that ends would land nothing any more
                log.exception("kinesis_lander_failed")
            self._wakeup.wait(_LOOK_SECONDS)
            self._wakeup.clear()

    def _look(self) -> None:
        if self._landers:
            self._service.store.tail.want(lease_clock() - _BEAT_SECONDS)
        channels = self._service.channels.channels
        now = lease_clock()
        with self._lock:
            for known in (self._not_before, self._pauses):
                for gone in known.keys() - channels.keys():
                    del known[gone]
            for gone in self._landers.keys() - channels.keys() - self._busy:
                self._forget(gone)
            for channel in channels.values():
                if channel.name in self._busy or now < self._not_before.get(channel.name, 0.0):
                    continue
                if self._has_work(channel):
                    self._busy.add(channel.name)
                    self._workers.submit(self._work, channel)

    def _has_work(self, channel: ChannelState) -> bool:
        if channel.status is ChannelStatus.FAILED:
            return False
        if channel.status is ChannelStatus.CREATING:
            return self._destination is not None
        if self._is_own(channel) or channel.name in self._landers:
            return True
        can = self._destination is not None or channel.status is ChannelStatus.DELETING
        return can and self._is_free(channel)

    def _is_own(self, channel: ChannelState) -> bool:
        return channel.owner == self._service.store.tail.instance

    def _is_free(self, channel: ChannelState) -> bool:
        """Return whether no live instance owns a channel, as far as is known here."""
        if not channel.owner:
            return True
        instances = self._service.store.tail.instances
        return instances.silence(channel.owner, lease_clock()) > _SILENT_SECONDS

    def _work(self, channel: ChannelState) -> None:
        name = channel.name
        try:
            pause = self._step(channel)
        except Superseded:
            self._forget(name)
            pause = 0.0
        except Exception as error:  # noqa: BLE001 - what fails is tried again
            pause = self._note_failure(channel, error)
        else:
            if self._pauses.pop(name, None) is not None:
                log.info("kinesis_channel_delivers_again", channel=name)
        finally:
            with self._lock:
                self._not_before[name] = lease_clock() + pause
                self._busy.discard(name)
        if pause == 0.0:
            self._wakeup.set()

    def _step(self, channel: ChannelState) -> float:
        """Do what a channel needs; return for how many seconds it needs nothing."""
        if channel.status is ChannelStatus.DELETING:
            self._service.channels.change(channel.name, lambda now: self._ended(channel, now))
            self._forget(channel.name)
            return 0.0
        assert self._destination is not None
        if channel.status is ChannelStatus.CREATING:
            self._activate(channel, self._destination)
            return 0.0
        lander = self._landers.get(channel.name)
        if lander is None or (self._is_own(channel) and lander.epoch != channel.epoch):
            claimed = channel if self._is_own(channel) else self._claim(channel)
            if claimed is None:
                return 0.0
            lander = ChannelLander(self._service, self._destination, claimed, self._most_bytes)
            self._landers[channel.name] = lander
        return lander.step()

    def _ended(self, channel: ChannelState, current: ChannelState | None) -> ChannelState | None:
        if current is None or current.id != channel.id:
            return current
        return None if self._is_own(current) or self._is_free(current) else current

    def _activate(self, channel: ChannelState, destination: Destination) -> None:
        """Find where a new channel begins: at the end of what the stream has."""
        for bucket in channel.buckets:
            destination.check(bucket)
        stream = source_of(self._service, channel)
        partitions = {
            each.number: TopicPartition(stream.name, each.partition) for each in stream.open_shards
        }
        ends = self._service.reader.offsets_at(list(partitions.values()), LATEST)
        positions = {number: ends[partition] for number, partition in partitions.items()}
        own = self._service.store.tail.instance

        def step(current: ChannelState | None) -> ChannelState | None:
            if current is None or current.id != channel.id:
                return current
            if current.status is not ChannelStatus.CREATING:
                return current  # another instance was faster
            return current.activated(positions, stream.shards).claimed(own)

        self._service.channels.change(channel.name, step)
        log.info("kinesis_channel_active", channel=channel.name, stream=channel.stream)

    def _claim(self, channel: ChannelState) -> ChannelState | None:
        """Take over a channel, unless its owner is heard of again, or another one was faster."""

        def step(current: ChannelState | None) -> ChannelState | None:
            if current is None or not current.is_running or not self._is_free(current):
                return current
            return current.claimed(self._service.store.tail.instance)

        claimed = self._service.channels.change(channel.name, step)
        if claimed is None or not self._is_own(claimed):
            return None
        log.info("kinesis_channel_taken_over", channel=channel.name, epoch=claimed.epoch)
        return claimed

    def _forget(self, name: str) -> None:
        self._landers.pop(name, None)
        self._service.delivery.forget(name)

    def _most_bytes(self) -> int:
        """Return how much of one channel may be in memory: all of them share one budget."""
        share = _ALL_BYTES // max(1, len(self._landers))
        return max(_LEAST_FILE_BYTES, min(_MOST_FILE_BYTES, share))

    def _note_failure(self, channel: ChannelState, error: Exception) -> float:
        """Log the first failure of a row of them, and let DescribeChannel show it."""
        name = channel.name
        self._service.delivery.count(name, failures=1)
        is_first = name not in self._pauses
        pause = min(2 * self._pauses.get(name, _RETRY_SECONDS / 2), _LONGEST_RETRY)
        self._pauses[name] = pause
        if is_first:
            log.warning("kinesis_channel_delayed", channel=name, error=repr(error))
        reason = _reason(error)
        age_ms = self._service.now_ms() - channel.created_ms
        has_failed = channel.status is ChannelStatus.CREATING and age_ms > _CREATE_SECONDS * 1000

        def step(current: ChannelState | None) -> ChannelState | None:
            if current is None or current.id != channel.id:
                return current
            if has_failed and current.status is ChannelStatus.CREATING:
                return replace(current, status=ChannelStatus.FAILED, reason=reason)
            return current if current.reason == reason else replace(current, reason=reason)

        if has_failed or is_first:
            try:
                self._service.channels.change(name, step)
            except Exception as second:  # noqa: BLE001 - the log has the reason
                log.warning("kinesis_channel_reason_not_stored", channel=name, error=repr(second))
        return pause


def _reason(error: Exception) -> str:
    """Return what DescribeChannel shows of a failure. Errors of the client would name brokers."""
    if isinstance(error, ServiceError):
        text = error.message or error.code
    elif isinstance(error, OSError):
        text = str(error)
    else:
        text = f"The cluster does not answer ({type(error).__name__})."
    return f"Records are not delivered at the moment: {text}"[:_MOST_REASON]
