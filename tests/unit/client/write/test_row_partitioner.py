"""Rows go to the partition they name, that of their key, or to one after the other."""

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.write.partitioner import partition_of
from headrace.client.write.row_partitioner import RowPartitioner
from headrace.model.error import InvalidArgument

KEYS = st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=60)
KINDS = st.sampled_from([pa.binary(), pa.large_binary()])


def split(
    partitioner: RowPartitioner, columns: pa.Table, run_rows: int = 1000
) -> Mapping[int, list[int]]:
    """The values of each partition, in their order."""
    found = defaultdict(list)
    for partition, rows in partitioner.split(columns, run_rows):
        assert "partition" not in rows.schema.names
        found[partitioner.next() if partition is None else partition] += rows["value"].to_pylist()
    return dict(found)


@settings(deadline=None)
@given(KEYS, KINDS, st.integers(1, 300), st.integers(0, 5))
def test_every_key_goes_where_the_plain_hash_puts_it(
    keys: list[bytes | None], kind: pa.DataType, count: int, offset: int
) -> None:
    keys = [b"first", *keys]
    table = pa.table({"key": pa.array(keys, kind), "value": list(range(len(keys)))})
    table = table.slice(min(offset, len(keys) - 1))

    found = split(RowPartitioner("clicks", count, range(count)), table)

    rows = zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    for key, number in rows:
        if key is not None:
            assert number in found.get(partition_of(key, count), ()), (key, number)
    for numbers in found.values():
        assert numbers == sorted(numbers)
    assert sum(map(len, found.values())) == table.num_rows


def test_a_named_partition_goes_before_the_key() -> None:
    table = pa.table({"partition": [5, None, 0], "key": ["a", "a", "a"], "value": [0, 1, 2]})

    found = split(RowPartitioner("clicks", 6, range(6)), table)

    assert found[5] == [0]
    assert found[0] == [2]
    assert found[partition_of(b"a", 6)] == [1]


def test_rows_that_may_go_anywhere_are_left_to_take_turns_by_batches() -> None:
    table = pa.table({"value": [1, 2, 3]})

    [(partition, rows)] = RowPartitioner("clicks", 6, range(6)).split(table, 10)

    assert partition is None
    assert rows is table


def test_nulls_among_keys_stay_together_in_runs() -> None:
    table = pa.table({"key": ["a", *[None] * 6], "value": list(range(7))})
    partitioner = RowPartitioner("clicks", 3, [1, 2])
    partitioner.next()

    found = split(partitioner, table, run_rows=3)

    runs = [numbers for part, numbers in found.items() if part in (1, 2)]
    together = [number for numbers in runs for number in numbers if number > 0]
    assert sorted(together) == [1, 2, 3, 4, 5, 6]
    assert {tuple(n for n in numbers if n > 0) for numbers in runs} == {(1, 2, 3), (4, 5, 6)}


def test_turns_go_round_the_partitions_that_have_a_leader() -> None:
    partitioner = RowPartitioner("clicks", 4, [0, 3])

    turns = [partitioner.next() for _ in range(4)]

    assert set(turns[:2]) == {0, 3}
    assert turns[:2] == turns[2:]


@pytest.mark.parametrize("partition", [-1, 6])
def test_a_partition_that_is_not_there_is_named(partition: int) -> None:
    table = pa.table({"partition": [0, partition], "value": [1, 2]})

    with pytest.raises(InvalidArgument, match=f"partitions 0 to 5, and no {partition}"):
        list(RowPartitioner("clicks", 6, range(6)).split(table, 10))


def test_a_partition_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="takes integers"):
        list(RowPartitioner("clicks", 6, range(6)).split(pa.table({"partition": ["1"]}), 10))


def test_rows_with_nothing_but_a_partition_are_records_too() -> None:
    [(partition, rows)] = RowPartitioner("clicks", 6, range(6)).split(
        pa.table({"partition": [2, 2]}), 9
    )

    assert partition == 2
    assert rows.num_rows == 2


def test_rows_are_checked_also_when_their_types_are_known() -> None:
    partitioner = RowPartitioner("clicks", 2, range(2))
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

    def rows(header: str | None) -> pa.Table:
        headers = pa.array([[], [{"key": header, "value": b"1"}]], kind)
        return pa.table({"value": [b"a", b"b"], "headers": headers})

    partitioner.check(rows("trace"))
    with pytest.raises(InvalidArgument, match="a header's key cannot be null"):
        partitioner.check(rows(None))
