"""Records of the KPL: what is inside, and what only looks like one."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.kinesis.aggregated_record import MAGIC, UserRecord, user_records
from testkit.sample.kpl_record import AGGREGATE


def sealed(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message).digest()


def test_the_records_inside_have_their_own_keys() -> None:
    assert user_records(AGGREGATE, "ada") == [
        UserRecord("ada", None, b"one", 0),
        UserRecord("bob", "7", b"twotwotwo", 1),
        UserRecord("ada", None, b"", 2),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MAGIC,
        b"plain",
        AGGREGATE[:-1] + b"x",  # the MD5 of something else
        sealed(b"\x1a\x02\x08\x00"),  # a record without a key table and without data
        sealed(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  # longer than there is
        sealed(b"\x0a" + b"\xff" * 11),  # a number without an end
        sealed(b"\x0b"),  # a group, which no library writes
        sealed(b"\x0a\x01\xff\x1a\x04\x08\x00\x1a\x00"),  # a key that is no text
    ],
)
def test_what_only_looks_like_an_aggregate_is_a_plain_record(data: bytes) -> None:
    assert user_records(data, "k") == [UserRecord("k", None, data)]


@given(st.binary(max_size=60))
def test_no_bytes_break_it(message: bytes) -> None:
    for each in user_records(sealed(message), None):
        assert len(each.data) <= len(sealed(message))
