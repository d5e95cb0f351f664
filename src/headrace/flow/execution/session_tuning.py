"""What a query needs of the session that starts it, without changing the session.

Rule 1: a query copies the session's settings when it starts. So they are set before and restored
        after; other queries of the session never see them.
Rule 2: a setting of the plan (`spark.*`) wins. Then what the user has set in the session or for the
        whole application, stays as it is. The rest is set here.
Rule 3: how many partitions there are between stages becomes part of a checkpoint with its first
        batch. A query that continues has that number. On a cluster a new one is what the
        application asks for (instances and cores of executors), or what has registered: right after
        a start that may be nothing, or the first of many, so it is waited for until no more come,
        and never guessed.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.execution.rebalance import PARTITIONS
from headrace.flow.storage.file_store import FileStore, numbered
from headrace.flow.storage.location import is_cluster

_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE = "spark.sql.streaming.stateStore"
# Spark's default checkpoint manager starts a process, `readlink`, per file: some thirty per batch.
# Both managers rename a file once it is whole.
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# Spark writes a checksum beside each file of a state, and so does Hadoop's local file system. Each
# such file starts `chmod` twice.
_FILE_CHECKSUM = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
_REGISTER_SECONDS = 60.0
# Executors of one application start together: seconds apart on machines that are busy.
_SETTLE_SECONDS = 3.0
_POLL_SECONDS = 0.2


@contextmanager
def tuned(
    spark: Any, settings: Mapping[str, str], checkpoint: FileStore | None = None
) -> Iterator[None]:
    """Set what suits a plan in the session, inside the block.

    Args:
        settings: those of the plan; only `spark.*` is read.
        checkpoint: of a query; None: a batch.

    Raises:
        FlowError: no executor has registered, so the number of partitions is not known.
    """
    given = {key: value for key, value in settings.items() if key.startswith("spark.")}
    defaults = {"spark.sql.execution.arrow.maxRecordsPerBatch": "100000"}
    if spark.conf.get(f"{_STATE_STORE}.providerClass", None) is None:
        # The second setting is RocksDB's own.
        defaults[f"{_STATE_STORE}.providerClass"] = _ROCKS_DB
        defaults[f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled"] = "true"
    if checkpoint is not None and checkpoint.local:
        defaults[_FILE_MANAGER] = _BY_FILE_SYSTEM
        defaults[_FILE_CHECKSUM] = "false"
    defaults = {key: text for key, text in defaults.items() if spark.conf.get(key, None) is None}
    if PARTITIONS not in given:
        defaults |= _partitions(spark, checkpoint)
    with _set(spark, {**defaults, **given}):
        yield


@contextmanager
def partitioned(spark: Any, checkpoint: FileStore | None = None) -> Iterator[None]:
    """Set only the number of partitions between stages, inside the block; see `tuned`."""
    with _set(spark, _partitions(spark, checkpoint)):
        yield


@contextmanager
def _set(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        if before[key] == value or (before[key] and not spark.conf.isModifiable(key)):
            # A setting that is fixed once the session has started, such as its memory.
            del before[key]
        else:
            spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def _partitions(spark: Any, checkpoint: FileStore | None) -> dict[str, str]:
    known = None if checkpoint is None else partitions_of(checkpoint)
    if known is not None:
        return {PARTITIONS: str(known)}
    if spark.conf.get(PARTITIONS, None) is not None:
        return {}
    context = spark.sparkContext
    if not is_cluster(context.master):
        # Spark's default of 200 is for a cluster; each partition is a state store to commit.
        return {PARTITIONS: str(context.defaultParallelism)}
    application = dict(context.getConf().getAll())
    asked = asked_cores(application)
    if asked is None:
        await_executors(lambda: _registered(context), context.master)
        asked = context.defaultParallelism
    return {PARTITIONS: str(asked)}


def partitions_of(checkpoint: FileStore) -> int | None:
    """Return how many partitions the batches of a checkpoint have; None if it has no batch.

    The file of a batch begins with a version, and its second line has the settings of the batch.
    """
    batches = numbered(checkpoint.names("offsets"))
    if not batches:
        return None
    with suppress(ValueError, KeyError, IndexError, FileNotFoundError):
        lines = checkpoint.read(f"offsets/{max(batches)}").decode().splitlines()
        return int(json.loads(lines[1])["conf"][PARTITIONS])
    return None


def asked_cores(application: Mapping[str, str]) -> int | None:
    """Return how many cores an application asks for; None if it does not say.

    With dynamic allocation the most executors count, because the number cannot grow later.
    """
    if application.get("spark.default.parallelism"):
        return int(application["spark.default.parallelism"])
    if application.get("spark.master", "").startswith("spark://"):
        # A standalone master starts no number of executors, but gives cores until there are enough.
        most = application.get("spark.cores.max")
        if most is not None:
            return int(most)
    dynamic = application.get("spark.dynamicAllocation.enabled") == "true"
    key = "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances"
    executors, cores = application.get(key), application.get("spark.executor.cores")
    if executors is None or (cores is None and application.get("spark.master") != "yarn"):
        return None
    return max(1, int(executors) * int(cores or 1))


def await_executors(
    registered: Callable[[], int],
    master: str,
    seconds: float = _REGISTER_SECONDS,
    settle_seconds: float = _SETTLE_SECONDS,
) -> None:
    """Wait until executors have registered, and then for a while no other.

    Raises:
        FlowError: none came.
    """
    begun = changed = time.monotonic()
    count = 0
    while True:
        seen, now = registered(), time.monotonic()
        if seen != count:
            count, changed = seen, now
        if count and (now - changed >= settle_seconds or now - begun >= seconds):
            return
        if now - begun >= seconds:
            raise FlowError(
                f"no executor of {master} has registered in {seconds:g} s, so it is not known into"
                f" how many partitions to divide: write -X {PARTITIONS}=N, as many as there will be"
                " cores"
            )
        time.sleep(_POLL_SECONDS)


def _registered(context: Any) -> int:
    """Return how many executors there are; Spark counts the driver as one."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1
