"""What a start finds in a checkpoint."""

from pathlib import Path

import pytest

from headrace.flow.storage.checkpoint_store import remove_unfinished
from headrace.flow.storage.file_store import LocalFileStore

TEMPORARY = [".0.1f0d2c4e.tmp", "..0.1f0d2c4e.tmp.crc"]


def left(folder: Path, names: list[str]) -> list[str]:
    (folder / "offsets").mkdir()
    for name in names:
        (folder / "offsets" / name).write_text("v1")
    remove_unfinished(LocalFileStore(folder))
    return sorted(each.name for each in (folder / "offsets").iterdir())


def test_a_first_batch_that_was_not_stored_whole_leaves_nothing(tmp_path: Path) -> None:
    assert left(tmp_path, TEMPORARY) == []


@pytest.mark.parametrize("other", ["0", "17", "notes"])
def test_a_checkpoint_with_anything_else_stays_as_it_is(tmp_path: Path, other: str) -> None:
    assert left(tmp_path, [*TEMPORARY, other]) == sorted([*TEMPORARY, other])


def test_a_new_checkpoint_is_empty(tmp_path: Path) -> None:
    remove_unfinished(LocalFileStore(tmp_path))
    assert list(tmp_path.iterdir()) == []
