"""Output gets its name when it is complete, and leaves nothing behind when it is not."""

from pathlib import Path

import pytest

from headrace.cli.record.partial_file import OutputFailed, partial_directory, partial_file
from headrace.model.error import InvalidArgument


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"

    with partial_file(path, replace=False) as written:
        written.write_text("whole")
        assert not path.exists()

    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("before")

    with pytest.raises(ZeroDivisionError), partial_file(path, replace=True) as written:
        written.write_text("half")
        raise ZeroDivisionError

    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("before")

    with pytest.raises(InvalidArgument, match="--force"), partial_file(path, replace=False):
        pass

    assert path.read_text() == "before"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "clicks.csv"

    with pytest.raises(OutputFailed, match=r"cannot write .*missing/clicks\.csv: No such file"):
        partial_file(path, replace=False).__enter__()


def test_a_directory_appears_with_all_its_files(tmp_path: Path) -> None:
    path = tmp_path / "clicks"

    with partial_directory(path) as written:
        (written / "a").write_text("1")
        assert not path.exists()

    assert [each.name for each in path.iterdir()] == ["a"]
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), partial_directory(tmp_path / "clicks") as written:
        (written / "a").write_text("1")
        raise ZeroDivisionError

    assert not list(tmp_path.iterdir())


def test_a_directory_with_something_in_it_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("1")

    with pytest.raises(InvalidArgument, match="not empty"), partial_directory(tmp_path):
        pass
