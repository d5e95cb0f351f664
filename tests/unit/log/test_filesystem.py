"""The machine's own file system."""

import os
from pathlib import Path

import pytest

from headrace.log.filesystem import Disk


def test_every_sync_is_timed(tmp_path: Path) -> None:
    times: list[float] = []
    disk = Disk(times.append)

    file = disk.open(tmp_path / "file", create=True)
    file.pwritev([b"x"], 0)
    assert times == []
    file.sync()
    file.close()
    assert len(times) == 1
    disk.write_atomically(tmp_path / "other", b"y")

    assert len(times) == 3  # the file, and the directory with its name
    assert all(0 <= each < 60 for each in times)


@pytest.mark.parametrize("buffers", [[b"abcdefgh"], [b"abc", b"defgh"]])
def test_a_write_that_is_cut_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffers: list[bytes]
) -> None:
    """The kernel may write less than it was handed, of one buffer as of several."""
    pwritev = os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwritev(fd, [data[:3]], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: pwritev(fd, [parts[0][:2]], at))
    file = Disk().open(tmp_path / "file", create=True)

    assert file.pwritev(buffers, 1) == 8

    assert file.pread(100, 0) == b"\0abcdefgh"
    file.close()
