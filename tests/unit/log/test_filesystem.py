"""The machine's own file system."""

from pathlib import Path

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
