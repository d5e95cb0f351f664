"""Sets of global transaction ids."""

import pytest
from pymysqlreplication.gtid import GtidSet as LibrarySet

from headrace.ingest.cdc.mysql.gtid import GtidSet

ONE, OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_the_last_transaction_of_each_domain_counts() -> None:
    found = GtidSet.parse("0-1-5,2-1-9")
    found.add("0-3-6")
    assert str(found) == "0-3-6,2-1-9"


def test_numbers_of_a_server_grow_together_to_intervals() -> None:
    found = GtidSet.parse(f"{ONE.upper()}:1-3:7,\n{OTHER}:5")
    for number in (4, 9, 8, 5, 5):
        found.add(f"{ONE}:{number}")
    assert str(found) == f"{ONE}:1-5:7-9,{OTHER}:5"
    assert str(LibrarySet(str(found))) == str(found)


@pytest.mark.parametrize(
    ("have", "want", "lacking"),
    [
        ("0-1-5", "0-2-5", None),
        ("0-1-5", "0-1-6", "0-1-6"),
        ("0-1-5", "1-1-1", "1-1-1"),
        ("", "", None),
        (f"{ONE}:1-9", f"{ONE}:2-3:5", None),
        (f"{ONE}:1-9", f"{ONE}:2-3:9-10", f"{ONE}:9-10"),
        (f"{ONE}:1-9", f"{OTHER}:1", f"{OTHER}:1-1"),
    ],
)
def test_a_set_says_what_it_lacks(have: str, want: str, lacking: str | None) -> None:
    assert GtidSet.parse(have).lacks(GtidSet.parse(want)) == lacking


@pytest.mark.parametrize("text", ["0-1", "a-b-c", f"{ONE}:x", "nothing"])
def test_what_is_no_set_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        GtidSet.parse(text)
