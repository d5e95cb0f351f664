"""The machine's own file system."""

from pathlib import Path

from headrace.log.filesystem import Disk


def test_every_sync_of_a_file_is_timed(tmp_path: Path) -> None:
    times: list[float] = []
    disk = Disk(times.append)

    file = disk.open(tmp_path / "file", create=True)
    file.pwritev([b"x"], 0)
    assert times == []
    file.sync()
    disk.write_atomically(tmp_path / "other", b"y")
    file.close()

    assert len(times) == 2
    assert all(0 <= each < 60 for each in times)
