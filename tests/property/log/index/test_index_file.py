"""The indexes against a list, over random histories with dropped memory and reopening."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.offset_index import OffsetIndex
from headrace.log.index.time_index import TimeIndex
from testkit.fault.crash_disk import CrashDisk

BASE = 2**40
DATA = Path("/data")

# (what, argument): steps between entries, where to cut, and disturbances that must not matter
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 200)),
        st.tuples(st.just("truncate"), st.integers(0, 4000)),
        st.tuples(st.sampled_from(["write", "unload", "flush", "reopen"]), st.just(0)),
    ),
    max_size=120,
)


def pool() -> FilePool:
    disk = CrashDisk()
    disk.make_directory(DATA)
    return FilePool(disk, capacity=2)


@settings(deadline=None, max_examples=150)
@given(steps=STEPS, probes=st.lists(st.integers(0, 5000), min_size=1, max_size=10))
def test_the_offset_index_is_a_sorted_list(steps: list[tuple[str, int]], probes: list[int]) -> None:
    files, cache = pool(), IndexCache(max_bytes=256)
    path = DATA / "0.index"
    index = OffsetIndex(path, BASE, files, cache, new=True)
    model: list[tuple[int, int]] = []
    for what, argument in steps:
        if what == "append":
            offset, position = model[-1] if model else (BASE - 1, -1)
            model.append((offset + argument, position + argument))
            index.append(*model[-1])
        elif what == "truncate":
            model = [entry for entry in model if entry[0] < BASE + argument]
            index.truncate_to(BASE + argument)
        elif what == "reopen":
            index.close()
            index = OffsetIndex(path, BASE, files, cache)
        else:
            getattr(index._file, what)()
        assert index.count == len(model)
        assert index.last_offset == (model[-1][0] if model else BASE)
    for probe in probes:
        below = [entry for entry in model if entry[0] <= BASE + probe]
        assert index.lookup(BASE + probe) == (below[-1] if below else (BASE, 0))
    index.check()


@settings(deadline=None, max_examples=150)
@given(
    steps=STEPS,
    jitter=st.lists(st.integers(-3, 300), min_size=120, max_size=120),
    probes=st.lists(st.integers(-1, 30000), min_size=1, max_size=10),
)
def test_the_time_index_is_a_sorted_list_of_maxima(
    steps: list[tuple[str, int]], jitter: list[int], probes: list[int]
) -> None:
    files, cache = pool(), IndexCache(max_bytes=256)
    path = DATA / "0.timeindex"
    index = TimeIndex(path, BASE, files, cache, new=True)
    model: list[tuple[int, int]] = []
    for (what, argument), step in zip(steps, jitter, strict=False):
        if what == "append":
            timestamp, offset = model[-1] if model else (-1, BASE - 1)
            entry = (timestamp + step, offset + argument)
            assert index.maybe_append(*entry) == (step > 0)
            if step > 0:
                model.append(entry)
        elif what == "truncate":
            model = [entry for entry in model if entry[1] < BASE + argument]
            index.truncate_to(BASE + argument)
        elif what == "reopen":
            index.close()
            index = TimeIndex(path, BASE, files, cache)
        else:
            getattr(index._file, what)()
        assert index.last_entry == (model[-1] if model else (-1, BASE))
    for probe in probes:
        below = [entry for entry in model if entry[0] <= probe]
        assert index.lookup(probe) == (below[-1] if below else (-1, BASE))
    index.check()


@pytest.mark.parametrize("timestamp", [0, 1, 2**32 - 1, 2**32, 2**62, 2**63 - 1])
def test_every_timestamp_survives_the_file(timestamp: int) -> None:
    files, cache = pool(), IndexCache()
    index = TimeIndex(DATA / "0.timeindex", BASE, files, cache, new=True)
    index.maybe_append(timestamp, BASE + 2**31 - 1)
    index.close()
    again = TimeIndex(DATA / "0.timeindex", BASE, files, cache)
    assert again.lookup(timestamp) == again.last_entry == (timestamp, BASE + 2**31 - 1)
