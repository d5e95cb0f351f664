"""A tier of its own that reads topics and counts their records."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from headrace.audit.tally import Tally
from headrace.client.read.read_range import Bound, LogEdge
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings

_WAIT_SECONDS = 0.5


def count_topics(
    settings: ClientSettings,
    topics: Sequence[str],
    tally: Tally,
    *,
    start: Bound = LogEdge.LATEST,
    follow: bool = True,
    stopped: Callable[[], bool],
) -> int:
    """Count records until `stopped`; aborted transactions do not count.

    Args:
        follow: go on for ever; else end where the topics end now.

    Returns:
        How many records were counted.

    Raises:
        ClientError: a topic is not there, or cannot be read any more.
    """
    counted = 0
    with Reader.of_topics(
        settings,
        *topics,
        start=start,
        follow=follow,
        read_committed=True,
        columns=["timestamp"],
        reset=LogEdge.EARLIEST,
    ) as reader:
        while not stopped() and not reader.ended:
            chunk = reader.poll(_WAIT_SECONDS)
            if chunk is not None:
                times = chunk.columns.column("timestamp").cast(pa.int64()).to_numpy()
                tally.count_column(chunk.partition.topic, times)
                counted += len(times)
    return counted
