"""Where Delta tables of topics may be."""

import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from headrace.landing.configured.table_folder import TableFolder
from headrace.landing.error import LandingError
from headrace.model.table.table_name import TableName


def place(folder: Path, text: str) -> str:
    return TableFolder(folder).place(TableName.parse(text)).name


def test_a_table_is_below_the_folder(tmp_path: Path) -> None:
    assert place(tmp_path, "delta:shop/clicks") == str(tmp_path / "shop/clicks")
    assert place(tmp_path, f"delta:{tmp_path}/clicks") == str(tmp_path / "clicks")


def test_a_table_of_a_catalog_stays_as_it_is(tmp_path: Path) -> None:
    assert place(tmp_path, "iceberg:lake.shop.clicks") == "lake.shop.clicks"


@pytest.mark.parametrize("text", ["delta:/etc/clicks", "delta:../clicks", "delta:.", "delta:a/.."])
def test_a_table_outside_of_the_folder_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LandingError, match="is not below"):
        place(tmp_path, text)


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    lake.mkdir()
    elsewhere.mkdir()
    (lake / "out").symlink_to(elsewhere)

    with pytest.raises(LandingError, match="is not below"):
        place(lake, "delta:out/clicks")


def test_a_table_is_neither_in_nor_around_another(tmp_path: Path) -> None:
    (tmp_path / "shop/clicks/_delta_log").mkdir(parents=True)

    assert place(tmp_path, "delta:shop/clicks") == str(tmp_path / "shop/clicks")
    with pytest.raises(LandingError, match="is inside the table"):
        place(tmp_path, "delta:shop/clicks/eu")
    with pytest.raises(LandingError, match="is not a Delta table"):
        place(tmp_path, "delta:shop")


def test_an_empty_folder_may_become_a_table(tmp_path: Path) -> None:
    (tmp_path / "clicks").mkdir()

    assert place(tmp_path, "delta:clicks") == str(tmp_path / "clicks")


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [("delta:x", "delta:x/y", "is inside"), ("delta:x/y", "delta:x", "is not a Delta table")],
)
def test_of_two_new_tables_around_each_other_only_the_first_is_made(
    tmp_path: Path, first: str, second: str, sentence: str
) -> None:
    folder = TableFolder(tmp_path)
    one, two = (folder.place(TableName.parse(each)) for each in (first, second))
    refusals: list[str] = []

    def make_second() -> None:
        try:
            with folder.making(two):
                pass
        except LandingError as error:
            refusals.append(str(error))

    thread = Thread(target=make_second)
    with folder.making(one):
        thread.start()
        (one.path / "_delta_log").mkdir(parents=True)
    thread.join()

    assert len(refusals) == 1 and sentence in refusals[0]


_MAKE = """
import sys
from pathlib import Path
from headrace.landing.configured.table_folder import TableFolder
from headrace.landing.error import LandingError
from headrace.model.table.table_name import TableName

folder = TableFolder(Path(sys.argv[1]), lock_seconds=0)
name = folder.place(TableName.parse(sys.argv[2]))
for line in sys.stdin:
    try:
        with folder.making(name):
            print("made", flush=True)
    except LandingError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [("delta:x", "delta:x/y", "is inside"), ("delta:x/y", "delta:x", "is not a Delta table")],
)
def test_another_process_makes_no_table_around_one_that_is_being_made(
    tmp_path: Path, first: str, second: str, sentence: str
) -> None:
    folder = TableFolder(tmp_path / "lake")
    name = folder.place(TableName.parse(first))
    words = [sys.executable, "-c", _MAKE, str(folder.path), second]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, bufsize=1) as other:
        assert other.stdin is not None and other.stdout is not None
        with folder.making(name):
            other.stdin.write("while it is being made\n")
            assert "another process has been making a table" in other.stdout.readline()
            (name.path / "_delta_log").mkdir(parents=True)
        other.stdin.write("after it\n")
        assert sentence in other.stdout.readline()
        other.stdin.close()


def test_the_file_of_the_lock_is_no_table(tmp_path: Path) -> None:
    folder = TableFolder(tmp_path)
    with folder.making(folder.place(TableName.parse("delta:x"))):
        pass

    with pytest.raises(LandingError, match="is not a Delta table"):
        place(tmp_path, "delta:.headrace-tables.lock")
