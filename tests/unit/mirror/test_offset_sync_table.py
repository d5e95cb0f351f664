"""Offsets of groups, translated."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.mirror.format.offset_sync import OffsetSync
from headrace.mirror.offset_sync_table import MOST_SYNCS, OffsetSyncTable
from headrace.model.ids import TopicPartition

PLACE = TopicPartition("t", 0)


def table(*pairs: tuple[int, int]) -> OffsetSyncTable:
    found = OffsetSyncTable()
    for upstream, offset in pairs:
        found.add(OffsetSync(PLACE, upstream, offset))
    return found


def test_a_group_goes_on_after_the_nearest_pair() -> None:
    found = table((100, 0), (200, 90))
    assert [found.translate(each) for each in (99, 100, 101, 199, 200, 201)] == [
        None,
        0,
        1,
        1,
        90,
        91,
    ]


def test_an_empty_table_translates_nothing() -> None:
    assert table().translate(5) is None


def test_a_pair_that_goes_back_begins_a_new_table() -> None:
    assert table((100, 50), (10, 60)).syncs == [(10, 60)]
    assert table((100, 50), (110, 40)).syncs == [(110, 40)]
    assert table((100, 50), (100, 50)).syncs == [(100, 50)]


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1, max_size=300),
    st.integers(0, 10**12),
)
def test_no_record_is_skipped_and_little_is_kept(steps: list[tuple[int, int]], at: int) -> None:
    """True offsets grow by less than or as much as the pairs say; a translation never passes."""
    pairs = []
    upstream = offset = 0
    for first, second in steps:
        upstream, offset = upstream + first, offset + second
        pairs.append((upstream, offset))
    found = table(*pairs)
    assert len(found.syncs) <= MOST_SYNCS
    assert found.syncs[-1] == pairs[-1]
    assert found.syncs[0] == pairs[0]
    translated = found.translate(at)
    before = [each for each in pairs if each[0] <= at]
    if not before:
        assert translated is None
    else:
        assert translated is not None
        assert translated <= before[-1][1] + (1 if at > before[-1][0] else 0)


def test_old_pairs_get_rarer() -> None:
    found = table(*((100 * n, 100 * n) for n in range(1, 10_001)))
    assert 10 <= len(found.syncs) <= 30
    gaps = [b[0] - a[0] for a, b in zip(found.syncs, found.syncs[1:], strict=False)]
    assert gaps[-1] == 100
    assert max(gaps) == gaps[0] or max(gaps) == gaps[1]
