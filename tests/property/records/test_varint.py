"""Varints: Python's, the kernels' and kafka-python's are the same bytes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.record.util import encode_varint
from numba import njit

from headrace.model.error import CorruptBatch
from headrace.records.kernel import varint as kernel
from headrace.records.kernel.memory import address
from headrace.records.varint import read_varint, write_varint

some = settings(deadline=None, max_examples=40)

numbers = st.integers(-(2**63), 2**63 - 1)


@njit
def kernel_write(out: np.ndarray, value: int) -> int:
    return kernel.write_varint(address(out), value) - address(out)


@njit
def kernel_size(value: int) -> int:
    return kernel.varint_bytes(value)


@njit
def kernel_read(data: np.ndarray) -> tuple[int, int]:
    value, after = kernel.read_varint(address(data), address(data) + data.shape[0])
    return value, (after - address(data) if after != kernel.BAD else -1)


@some
@given(numbers)
@example(-(2**63))
@example(2**63 - 1)
def test_all_writers_agree(number):
    theirs = bytearray()
    encode_varint(number, theirs.append)
    out = np.zeros(10, dtype=np.uint8)
    size = kernel_write(out, number)

    assert write_varint(number) == bytes(theirs) == bytes(out[:size])
    assert kernel_size(number) == size


@some
@given(numbers, st.binary(max_size=3))
def test_both_readers_find_the_number_and_its_end(number, rest):
    data = write_varint(number) + rest
    expected = number, len(data) - len(rest)

    assert read_varint(memoryview(data), 0) == expected
    assert kernel_read(np.frombuffer(data, dtype=np.uint8)) == expected


@some
@given(st.binary(max_size=12))
def test_any_bytes_are_read_or_refused_alike(data):
    found = kernel_read(np.frombuffer(data, dtype=np.uint8))

    try:
        value, after = read_varint(memoryview(data), 0)
    except CorruptBatch:
        assert found[1] == -1
    else:
        # A tenth byte can hold more than an int64 has room for: the kernel drops those bits.
        assert found[1] == after
        assert (found[0] - value) % 2**63 == 0


def test_more_than_ten_bytes_are_no_varint():
    with pytest.raises(CorruptBatch, match="more than 10 bytes"):
        read_varint(memoryview(b"\x80" * 11), 0)
    assert kernel_read(np.full(11, 0x80, dtype=np.uint8))[1] == -1
