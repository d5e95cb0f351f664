"""Finishes what a change of a stream began: makes its topic fit, then writes the final state.

Every unsettled state says all that is left to do, and doing it twice does no harm. The instance
that made the change finishes it; if it dies, any other one does after `_OTHERS_SECONDS`. One that
comes late may find a new stream of the same name: topics are changed and deleted by their id.

| status | what is done | next |
|---|---|---|
| CREATING | create the topic | ACTIVE |
| UPDATING, reshard | wait for leases, add partitions, read where closing shards end | ACTIVE |
| UPDATING | write retention and record size to the topic's configuration | ACTIVE |
| DELETING | delete the topic | no record |
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

import structlog

from headrace.client.admin.admin import Admin, ConfigChange, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.metadata import TopicMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.store.lease import CLOSING_SECONDS, lease_clock
from headrace.gateway.kinesis.store.shard_end import shard_ends
from headrace.gateway.kinesis.store.stream_store import Step, StreamStore
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_OTHERS_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 2.0
_THREADS: Final = 4
_HOUR_MS: Final = 3_600_000
_OVERHEAD_BYTES: Final = 65_536

_MAY_PASS: Final = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.not_controller,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_server_error,
    }
)


class StreamKeeper:
    """Threads that settle streams."""

    def __init__(self, settings: ClientSettings, store: StreamStore) -> None:
        self._settings = settings
        self._store = store
        self._own: set[tuple[str, int]] = set()
        self._seen: dict[tuple[str, int], float] = {}
        self._not_before: dict[str, float] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="kinesis-keeper")
        self._thread = threading.Thread(target=self._run, name="kinesis-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._store.tail.wake()
        self._thread.join(timeout=10)
        self._workers.shutdown(wait=True, cancel_futures=True)

    def change(self, name: str, step: Step) -> StreamState | None:
        """Change a stream as `StreamStore.change` does, and finish the change in the background."""
        state = self._store.change(name, step)
        if state is not None and not state.is_settled:
            with self._lock:
                self._own.add((name, state.revision))
            self._store.tail.wake()
        return state

    def _run(self) -> None:
        while not self._stopping:
            self._look()
            self._store.tail.wait(0.2)

    def _look(self) -> None:
        with self._lock:
            # Read under the lock: `change` adds what is visible already.
            unsettled = [each for each in self._store.streams.values() if not each.is_settled]
            # After them: a change is seen now at the earliest, however long this thread has waited.
            now = lease_clock()
            current = {(each.name, each.revision) for each in unsettled}
            self._seen = {key: at for key, at in self._seen.items() if key in current}
            self._own &= current
            for stream in unsettled:
                seen = self._seen.setdefault((stream.name, stream.revision), now)
                if stream.name in self._busy or now < self._due(stream, seen):
                    continue
                self._busy.add(stream.name)
                self._workers.submit(self._settle, stream)

    def _due(self, stream: StreamState, seen: float) -> float:
        wait = CLOSING_SECONDS if stream.pending is not None else 0.0
        if (stream.name, stream.revision) not in self._own:
            wait += _OTHERS_SECONDS
        return max(seen + wait, self._not_before.get(stream.name, 0.0))

    def _settle(self, stream: StreamState) -> None:
        try:
            with ConnectionPool(self._settings) as pool:
                settle(pool, self._store, stream)
            self._not_before.pop(stream.name, None)
        except Exception as error:  # noqa: BLE001 - a thread that ends would leave all streams
            log.warning("kinesis_stream_unsettled", stream=stream.name, error=repr(error))
            self._not_before[stream.name] = lease_clock() + _RETRY_SECONDS
        finally:
            with self._lock:
                self._busy.discard(stream.name)


def settle(pool: ConnectionPool, store: StreamStore, stream: StreamState) -> None:
    """Finish one change. A reshard must have been visible for `CLOSING_SECONDS`.

    Raises:
        ClientError, ServiceError: it did not work now, and is to be tried again.
    """
    match stream.status:
        case StreamStatus.CREATING:
            final = _create(pool, stream)
        case StreamStatus.DELETING:
            _delete(pool, stream)
            final = None
        case _ if stream.pending is not None:
            final = _reshard(pool, stream)
        case _:
            final = _configure(pool, stream)

    def step(current: StreamState | None) -> StreamState | None:
        # Another instance may have finished it, or the user deleted the stream meanwhile.
        return final if current == stream else current

    store.change(stream.name, step)


def topic_configs(stream: StreamState) -> dict[str, str]:
    """Return the configuration of a stream's topic. The broker's time is the arrival time."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(stream.retention_hours * _HOUR_MS),
        "max.message.bytes": str(stream.max_record_kib * 1024 + _OVERHEAD_BYTES),
        "message.timestamp.type": "LogAppendTime",
    }


def _create(pool: ConnectionPool, stream: StreamState) -> StreamState | None:
    topic = NewTopic(stream.name, stream.partition_count, configs=topic_configs(stream))
    error = Admin(pool).create_topics([topic])[stream.name]
    if error is None or error.code is ErrorCode.topic_already_exists:
        created = _topic(pool, stream.name).topic_id
        topic_id = "" if created is None else created.hex
        return stream.changed(status=StreamStatus.ACTIVE, topic_id=topic_id)
    if error.code in _MAY_PASS:
        raise error
    # The service gives up a stream that it cannot create; clients see that it does not exist.
    log.error("kinesis_stream_not_created", stream=stream.name, error=str(error))
    return None


def _delete(pool: ConnectionPool, stream: StreamState) -> None:
    gone = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)
    if stream.topic_id:
        topic_id = UUID(stream.topic_id)
        _raise_unless(Admin(pool).delete_topics_by_id([topic_id])[topic_id], *gone)
    else:  # of brokers without topic ids
        _raise_unless(Admin(pool).delete_topics([stream.name])[stream.name], *gone)


def _configure(pool: ConnectionPool, stream: StreamState) -> StreamState:
    changes = [
        ConfigChange(ConfigOperation.SET, name, value)
        for name, value in topic_configs(stream).items()
    ]
    outcome = Admin(pool).alter_configs(ConfigResourceType.TOPIC, {stream.name: changes})
    _raise_unless(outcome[stream.name])
    return stream.changed(status=StreamStatus.ACTIVE)


def _reshard(pool: ConnectionPool, stream: StreamState) -> StreamState:
    assert stream.pending is not None
    topic = _topic(pool, stream.name)
    if stream.topic_id and topic.topic_id != UUID(stream.topic_id):
        raise BrokerError(ErrorCode.unknown_topic_id, f"{stream.name} has another topic by now")
    if len(topic.partitions) < stream.partition_count:
        error = Admin(pool).create_partitions({stream.name: stream.partition_count})[stream.name]
        _raise_unless(error, ErrorCode.invalid_partitions)  # another instance was faster
    closing = [each for each in stream.shards if stream.is_closing(each.number)]
    partitions = {each.number: TopicPartition(stream.name, each.partition) for each in closing}
    found = shard_ends(pool, stream.name, partitions.values())
    ends = {number: found[partition] for number, partition in partitions.items()}
    return stream.resharded(ends, time.time_ns() // 1_000_000)


def _topic(pool: ConnectionPool, name: str) -> TopicMetadata:
    topic = pool.metadata([name]).topics[name]
    if topic.error is not None:
        raise topic.error
    return topic


def _raise_unless(error: BrokerError | None, *harmless: ErrorCode) -> None:
    if error is not None and error.code not in harmless:
        raise error
