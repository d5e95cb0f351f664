"""The records that a job reads: of which system they are, for which task, in which order."""

from typing import Any

import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.samza.config import InputStream
from headrace.flow.samza.serde import Serde


def spout_name(system: str, *, broadcast: bool = False) -> str:
    return f"{system}-broadcast" if broadcast else f"{system}-inputs"


def system_of(spout: str) -> str:
    return spout.rpartition("-")[0]


def choose_task(batch: pa.RecordBatch, tasks: int) -> Any:
    """Return the task of each message: the number of its partition."""
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    if len(partitions) and partitions.max() >= tasks:
        raise new_partition(partitions.max(), tasks)
    return partitions


def new_partition(partition: int, tasks: int) -> Unrecoverable:
    return Unrecoverable(
        f"an input has got a partition {partition}, but the job has {tasks} tasks: start it again,"
        " and it goes on with a task for each partition"
    )


def rank(stream: InputStream) -> tuple[bool, int, str]:
    """Return by what the streams of a task are ordered: bootstrap first, then by priority."""
    return not stream.bootstrap, -stream.priority, stream.stream.stream


def read_pair(
    stream: InputStream, key: bytes | None, value: bytes | None, place: str
) -> tuple[Any, Any]:
    """Return the key and the message of a record.

    Raises:
        ValueError: a serde cannot read it.
    """
    try:
        return _read(stream.key_serde, key), _read(stream.message_serde, value)
    except Exception as error:
        raise ValueError(
            f"{stream.stream} has a message at {place} that its serde cannot read: {error}"
        ) from error


def _read(serde: Serde, data: bytes | None) -> Any:
    return None if data is None else serde.from_bytes(data)
