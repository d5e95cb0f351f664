"""Where logs ended in the past, so that commits from before the first poll have a lag too."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import FoundOffset, list_offsets
from headrace.model.ids import TopicPartition

# One request asks for one time per partition. Ten commits of a few groups fit in so many.
MOST_ROUNDS: Final = 20


def past_ends(
    pool: ConnectionPool,
    moments: Iterable[tuple[TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
) -> dict[tuple[TopicPartition, int], FoundOffset]:
    """Return the log end of each partition at each time: the first record that is not older.

    Producers choose timestamps, so it is an estimate. Where nothing is younger, and for what is
    left after `MOST_ROUNDS`, it is the end now.
    """
    times: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, at_ms in sorted(set(moments), reverse=True):
        times[partition].append(at_ms)
    ends_then = {
        (partition, at_ms): FoundOffset(ends.get(partition, 0), at_ms)
        for partition, each in times.items()
        for at_ms in each
    }
    for number in range(MOST_ROUNDS):
        asked = {each: queue[number] for each, queue in times.items() if len(queue) > number}
        if not asked:
            break
        for partition, answer in list_offsets(pool, asked).items():
            if isinstance(answer, FoundOffset) and answer.offset >= 0:
                ends_then[partition, asked[partition]] = answer
    return ends_then
