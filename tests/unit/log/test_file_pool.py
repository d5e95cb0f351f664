"""The file pool: few descriptors for many files, and none closed while a holder uses it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.log.file_pool import FilePool, default_capacity
from headrace.log.filesystem import Disk
from headrace.model.error import InvalidArgument


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / str(number) for number in range(6)]
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_file_is_opened_once(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=2)
    assert pool.get(paths[0]) is pool.get(paths[0])


def test_the_least_recently_used_file_is_closed(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=2)
    fds = [pool.get(path).fileno() for path in paths[:2]]
    pool.get(paths[0])
    pool.get(paths[2])
    assert paths[0] in pool
    assert paths[1] not in pool
    assert len(pool) == 2
    assert is_open(fds[0])


def test_an_evicted_file_stays_open_while_it_is_held(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=1)
    held = pool.get(paths[0])
    pool.get(paths[1])
    assert held.pread(1, 0) == b"0"
    fd = held.fileno()
    del held
    assert not is_open(fd)


def test_a_removed_file_stays_readable_while_it_is_held(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=1)
    held = pool.get(paths[0])
    pool.forget(paths[0])
    paths[0].unlink()
    assert held.pread(1, 0) == b"0"


def test_a_forgotten_path_is_looked_up_again(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=4)
    pool.get(paths[0])
    pool.forget(paths[0])
    paths[1].replace(paths[0])
    assert pool.get(paths[0]).pread(1, 0) == b"1"


def test_a_forgotten_directory_takes_its_files_along(paths: list[Path], tmp_path: Path) -> None:
    pool = FilePool(Disk(), capacity=4)
    pool.get(paths[0])
    pool.forget_tree(tmp_path / "other")
    assert len(pool) == 1
    pool.forget_tree(tmp_path)
    assert len(pool) == 0


def test_a_missing_file_is_created_only_on_demand(tmp_path: Path) -> None:
    pool = FilePool(Disk(), capacity=4)
    with pytest.raises(FileNotFoundError):
        pool.get(tmp_path / "new")
    assert pool.get(tmp_path / "new", create=True).size() == 0


def test_close_lets_go_of_all(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=4)
    fds = [pool.get(path).fileno() for path in paths[:3]]
    pool.close()
    assert not any(map(is_open, fds))


def test_threads_share_it(paths: list[Path]) -> None:
    pool = FilePool(Disk(), capacity=2)

    def read(turn: int) -> bool:
        path = paths[turn % len(paths)]
        if turn % 17 == 0:
            pool.forget(path)
        return pool.get(path).pread(1, 0) == path.name.encode()

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(2000)))
    assert len(pool) <= 2


def test_the_default_bound_leaves_descriptors_for_clients() -> None:
    assert 16 <= default_capacity() <= 524_288


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least 1"):
        FilePool(Disk(), capacity=0)
