"""Finishes what a change of a stream began: makes its topic fit, then writes the final state.

Every unsettled state says all that is left to do, and doing it twice does no harm. The instance
that made the change finishes it; if it dies, any other one does after `_OTHERS_SECONDS`. One that
comes late may find a new stream of the same name: topics are changed and deleted by their id.

| status | what is done | next |
|---|---|---|
| CREATING | create the topic | ACTIVE |
| UPDATING, reshard | wait for leases, add partitions, find where closing shards end | ACTIVE |
| UPDATING, encryption | wait for leases | ACTIVE |
| UPDATING | write retention and record size to the topic's configuration | ACTIVE |
| DELETING | delete the topic | no record |

Rule 1: what is left to do is named by the revision that began it (`begun`). Tags that are set
meanwhile neither delay it nor get lost.
Rule 2: a reshard holds up the puts into its shards. One that cannot be finished in
`_RESHARD_SECONDS` is undone: nothing has been closed, so the shards go on as they were.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
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
from headrace.gateway.kinesis.stream.stream_state import HOUR_MS, StreamState, StreamStatus
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_OTHERS_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 30.0
_RESHARD_SECONDS: Final = 60.0
_THREADS: Final = 4
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
        self._own: set[_Work] = set()
        self._seen: dict[_Work, float] = {}
        self._failed: dict[_Work, _Failure] = {}
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
        if state is not None and not state.is_settled and state.begun == state.revision:
            with self._lock:
                self._own.add(_work(state))
            self._store.tail.wake()
        return state

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._look()
            except Exception:  # a thread that ends would leave all streams unsettled
                log.exception("kinesis_keeper_failed")
            self._store.tail.wait(0.2)

    def _look(self) -> None:
        with self._lock:
            # Read under the lock: `change` adds what is visible already.
            unsettled = [each for each in self._store.streams.values() if not each.is_settled]
            # After them: a change is seen now at the earliest, however long this thread has waited.
            now = lease_clock()
            current = {_work(each) for each in unsettled}
            self._seen = {key: at for key, at in self._seen.items() if key in current}
            self._failed = {key: each for key, each in self._failed.items() if key in current}
            self._own &= current
            for stream in unsettled:
                seen = self._seen.setdefault(_work(stream), now)
                if stream.name in self._busy or now < self._due(stream, seen):
                    continue
                self._busy.add(stream.name)
                self._workers.submit(self._settle, stream, seen)

    def _due(self, stream: StreamState, seen: float) -> float:
        waits = stream.pending is not None or stream.awaits_leases
        wait = CLOSING_SECONDS if waits else 0.0
        if _work(stream) not in self._own:
            wait += _OTHERS_SECONDS
        failure = self._failed.get(_work(stream))
        return seen + wait if failure is None else failure.not_before

    def _settle(self, stream: StreamState, seen: float) -> None:
        try:
            with ConnectionPool(self._settings) as pool:
                settle(pool, self._store, stream)
        except Exception as error:  # noqa: BLE001 - a thread that ends would leave all streams
            log.warning("kinesis_stream_unsettled", stream=stream.name, error=repr(error))
            self._note_failure(stream)
            if stream.pending is not None and lease_clock() - seen > _RESHARD_SECONDS:
                self._undo(stream)
        finally:
            with self._lock:
                self._busy.discard(stream.name)

    def _note_failure(self, stream: StreamState) -> None:
        """Try again, less and less often: what fails for minutes may fail for ever."""
        with self._lock:
            before = self._failed.get(_work(stream))
            pause = _RETRY_SECONDS if before is None else min(2 * before.pause, _PAUSE_SECONDS)
            self._failed[_work(stream)] = _Failure(pause, lease_clock() + pause)

    def _undo(self, stream: StreamState) -> None:
        """Give up a reshard."""
        try:
            self._store.change(stream.name, _step(stream, StreamState.without_reshard))
        except Exception as error:  # noqa: BLE001 - the next failure tries again
            log.warning("kinesis_reshard_not_undone", stream=stream.name, error=repr(error))
        else:
            log.error("kinesis_reshard_undone", stream=stream.name)


class _Work(NamedTuple):
    """What is left to do of a stream, by the revision that began it."""

    stream: str
    created_ms: int
    begun: int


class _Failure(NamedTuple):
    pause: float
    not_before: float


Finish = Callable[[StreamState], StreamState | None]
"""Computes the state in which a change is finished; None is no stream."""


def _work(stream: StreamState) -> _Work:
    return _Work(stream.name, stream.created_ms, stream.begun)


def _step(stream: StreamState, finish: Finish) -> Step:
    """Apply `finish` unless there is nothing left to do of what this state says."""

    def step(current: StreamState | None) -> StreamState | None:
        # Another instance may have finished it, or the user deleted the stream meanwhile.
        if current is None or _work(current) != _work(stream):
            return current
        return finish(current)

    return step


def settle(pool: ConnectionPool, store: StreamStore, stream: StreamState) -> None:
    """Finish one change. A reshard and a new key must have been visible for `CLOSING_SECONDS`.

    Raises:
        ClientError, ServiceError: it did not work now, and is to be tried again.
    """
    match stream.status:
        case StreamStatus.CREATING:
            finish = _create(pool, stream)
        case StreamStatus.DELETING:
            finish = _delete(pool, stream)
        case _ if stream.pending is not None:
            finish = _reshard(pool, stream)
        case _:
            finish = _configure(pool, stream)
    store.change(stream.name, _step(stream, finish))


def topic_configs(stream: StreamState) -> dict[str, str]:
    """Return the configuration of a stream's topic. The broker's time is the arrival time."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(stream.retention_hours * HOUR_MS),
        "max.message.bytes": str(stream.max_record_kib * 1024 + _OVERHEAD_BYTES),
        "message.timestamp.type": "LogAppendTime",
    }


def _create(pool: ConnectionPool, stream: StreamState) -> Finish:
    topic = NewTopic(stream.name, stream.partition_count, configs=topic_configs(stream))
    error = Admin(pool).create_topics([topic])[stream.name]
    if error is not None and error.code in _MAY_PASS:
        raise error
    if error is None or error.code is ErrorCode.topic_already_exists:
        created = _topic(pool, stream.name) if error is None else _own_topic(pool, stream)
        if created is not None:
            topic_id = "" if created.topic_id is None else created.topic_id.hex
            return lambda known: known.changed(status=StreamStatus.ACTIVE, topic_id=topic_id)
    # The service gives up a stream that it cannot create; clients see that it does not exist.
    log.error("kinesis_stream_not_created", stream=stream.name, error=str(error))
    return lambda _: None


def _own_topic(pool: ConnectionPool, stream: StreamState) -> TopicMetadata | None:
    """Return the topic of a stream's name, if it is as `_create` makes it.

    One that another instance made for this stream is; one that a Kafka client has made meanwhile
    is not, and belongs to that client.
    """
    topic = _topic(pool, stream.name)
    found = Admin(pool).describe_configs(ConfigResourceType.TOPIC, [stream.name])[stream.name]
    if isinstance(found, BrokerError):
        raise found
    configs = {each.name: each.value for each in found}
    same = topic_configs(stream).items() <= configs.items()
    if same and len(topic.partitions) == stream.partition_count:
        return topic
    log.warning("kinesis_topic_of_others", topic=stream.name)
    return None


def _delete(pool: ConnectionPool, stream: StreamState) -> Finish:
    gone = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)
    topic_id = UUID(stream.topic_id) if stream.topic_id else None
    if topic_id is None:  # deleted before it was active, or brokers without topic ids
        try:
            own = _own_topic(pool, stream)
        except BrokerError as error:
            _raise_unless(error, *gone)
            own = None
        if own is not None and own.topic_id is None:
            _raise_unless(Admin(pool).delete_topics([stream.name])[stream.name], *gone)
        topic_id = None if own is None else own.topic_id
    if topic_id is not None:
        _raise_unless(Admin(pool).delete_topics_by_id([topic_id])[topic_id], *gone)
    return lambda _: None


def _configure(pool: ConnectionPool, stream: StreamState) -> Finish:
    changes = [
        ConfigChange(ConfigOperation.SET, name, value)
        for name, value in topic_configs(stream).items()
    ]
    outcome = Admin(pool).alter_configs(ConfigResourceType.TOPIC, {stream.name: changes})
    _raise_unless(outcome[stream.name])
    return lambda known: known.changed(status=StreamStatus.ACTIVE, awaits_leases=False)


def _reshard(pool: ConnectionPool, stream: StreamState) -> Finish:
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
    now_ms = time.time_ns() // 1_000_000
    return lambda known: known.resharded(ends, now_ms)


def _topic(pool: ConnectionPool, name: str) -> TopicMetadata:
    topic = pool.metadata([name]).topics[name]
    if topic.error is not None:
        raise topic.error
    return topic


def _raise_unless(error: BrokerError | None, *harmless: ErrorCode) -> None:
    if error is not None and error.code not in harmless:
        raise error
