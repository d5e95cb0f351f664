"""What a task reads of a shard, and when it stops."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.spark.kinesis.client import Backoff, Page
from headrace.spark.kinesis.position import TRIM_HORIZON, Position, after
from headrace.spark.kinesis.task import KinesisTask, RangePartition, ShardPartition
from headrace.spark.source.data_loss import DataLoss


def record(number: int, ms: int = 0) -> dict[str, Any]:
    return {
        "SequenceNumber": str(number),
        "ApproximateArrivalTimestamp": datetime.fromtimestamp(ms / 1000, UTC),
    }


@dataclass
class Shard:
    """A shard that is open, and has these pages."""

    pages: Sequence[Sequence[dict[str, Any]]]
    fetches: int = field(default=0)

    def shard_iterator(self, shard: str, position: Position, *, with_last: bool = False) -> str:
        return "0"

    def get_records(self, iterator: str, limit: int) -> Page:
        self.fetches += 1
        assert self.fetches < 50, "the task goes on for ever"
        at = int(iterator)
        records = self.pages[at] if at < len(self.pages) else ()
        behind_ms = 0 if at + 1 >= len(self.pages) else 1
        return Page(list(records), str(at + 1), behind_ms)

    def backoff(self) -> Backoff:
        return Backoff(1, 1)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> KinesisTask:
    class Options:
        records_per_fetch = 10
        fetch_interval_seconds = 0.0
        fail_on_data_loss = True

        class connection:  # noqa: N801 - as the options name it
            stream = "clicks"

    return KinesisTask(Options(), None)  # type: ignore[arg-type]


def numbers(pages: Any) -> list[int]:
    return [int(each["SequenceNumber"]) for page in pages for each in page]


def test_a_record_from_the_future_neither_goes_missing_nor_ends_the_shard(
    task: KinesisTask,
) -> None:
    shard = Shard([[record(1), record(2, ms=10**12), record(3)], [record(4)]])
    read = task._shard(ShardPartition("s", TRIM_HORIZON, until_ms=1_000), shard)
    assert numbers(read) == [1, 2, 3, 4]


def test_a_shard_to_which_more_and_more_is_written_comes_to_an_end(task: KinesisTask) -> None:
    shard = Shard([[record(1)], [record(2, ms=2_000)], [record(3, ms=2_000)], []])
    read = task._shard(ShardPartition("s", TRIM_HORIZON, until_ms=1_000), shard)
    assert numbers(read) == [1]


def test_a_range_whose_beginning_has_gone_is_a_loss(task: KinesisTask) -> None:
    shard = Shard([[record(3), record(4)], []])
    partition = RangePartition("s", after("1"), after("4"))
    with pytest.raises(DataLoss, match=r"clicks: s has no record 1 any more.* retention"):
        list(task._range(partition, shard))


def test_a_range_begins_after_the_record_that_was_read(task: KinesisTask) -> None:
    shard = Shard([[record(1), record(3)], [record(4), record(5)], []])
    partition = RangePartition("s", after("1"), after("4"))
    assert numbers(task._range(partition, shard)) == [3, 4]


def test_a_range_whose_end_has_gone_is_a_loss_and_no_wait_for_ever(task: KinesisTask) -> None:
    shard = Shard([[record(1)], []])
    partition = RangePartition("s", TRIM_HORIZON, after("5"))
    with pytest.raises(Exception, match="has no record 5"):
        list(task._range(partition, shard))
