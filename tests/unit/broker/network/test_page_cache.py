"""Which pages of a file are in memory, and reading them before they are sent."""

import os
from pathlib import Path

import pytest

from headrace.broker.network.page_cache import WINDOW_BYTES, is_cached, read_ahead
from headrace.log.filesystem import Disk
from headrace.log.partition.log_slice import LogSlice
from headrace.model.offset import Offset


def test_pages_that_were_dropped_are_not_cached_until_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(4 * WINDOW_BYTES))
    opened = Disk().open(path, read_only=True)
    piece = LogSlice(opened, 0, 4 * WINDOW_BYTES, Offset(0), Offset(1))
    assert piece.file is not None
    piece.file.sync()
    assert is_cached(piece)
    os.posix_fadvise(piece.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if is_cached(piece):
        pytest.skip("this file system keeps its pages")

    read_ahead(piece)

    assert is_cached(piece)
