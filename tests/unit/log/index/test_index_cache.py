"""The index cache: bounded memory, the least used goes first."""

from pathlib import Path

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.offset_index import OffsetIndex
from headrace.model.error import InvalidArgument


class Held:
    """Stands for an index."""

    def __init__(self) -> None:
        self.touched = False
        self.loaded = True

    def unload(self) -> None:
        self.loaded = False


def test_what_is_held_stays_within_the_bound() -> None:
    cache = IndexCache(max_bytes=100)
    indexes = [Held() for _ in range(10)]
    for index in indexes:
        cache.hold(index, 30)
    assert cache.loaded_bytes == 90
    assert [index.loaded for index in indexes].count(True) == 3


def test_one_that_is_used_stays() -> None:
    cache = IndexCache(max_bytes=100)
    indexes = [Held() for _ in range(3)]
    for index in indexes:
        cache.hold(index, 30)
        index.touched = False
    indexes[0].touched = True
    cache.hold(Held(), 30)
    assert [index.loaded for index in indexes] == [True, False, True]


def test_the_newest_stays_even_when_it_is_too_large() -> None:
    cache = IndexCache(max_bytes=100)
    small, large = Held(), Held()
    cache.hold(small, 30)
    cache.hold(large, 1000)
    assert (small.loaded, large.loaded) == (False, True)


def test_growing_is_counted_once() -> None:
    cache = IndexCache(max_bytes=100)
    index = Held()
    cache.hold(index, 10)
    cache.hold(index, 50)
    assert cache.loaded_bytes == 50


def test_release_gives_the_bytes_back() -> None:
    cache = IndexCache()
    index = Held()
    cache.hold(index, 10)
    cache.release(index)
    assert (cache.loaded_bytes, len(cache)) == (0, 0)


def test_indexes_of_many_segments_share_the_bound(directory: Path, pool: FilePool) -> None:
    cache = IndexCache(max_bytes=16 * 1024)
    indexes = []
    for number in range(20):
        index = OffsetIndex(directory / f"{number:020d}.index", 0, pool, cache, new=True)
        for row in range(512):
            index.append(row, row)
        indexes.append(index)
    assert cache.loaded_bytes <= 16 * 1024
    assert all(index.lookup(300) == (300, 300) for index in indexes)
    assert cache.loaded_bytes <= 16 * 1024


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="-1 bytes"):
        IndexCache(max_bytes=-1)
