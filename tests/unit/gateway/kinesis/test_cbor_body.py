"""CBOR as AWS's SDKs for Java write it; bodies that would cost memory or depth are refused."""

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.protocol.cbor_body import read_cbor, write_cbor
from headrace.gateway.kinesis.protocol.timestamp import Timestamp


def test_indefinite_maps_and_chunked_bytes_are_read() -> None:
    body = bytes.fromhex("bf 64 44617461 5f 42 0102 41 03 ff 61 61 9f 01 20 f5 f6 ff ff")

    assert read_cbor(body) == {"Data": b"\1\2\3", "a": [1, -1, True, None]}


def test_a_time_is_written_in_milliseconds_under_tag_1() -> None:
    written = write_cbor({"t": Timestamp(1_500)})

    assert written.hex() == "a16174c11905dc"
    assert read_cbor(written) == {"t": Timestamp(1_500)}


@pytest.mark.parametrize(
    "body",
    [
        b"\x9b\x7f" + b"\xff" * 7,  # an array of 2**63 items
        b"\x5b\x00\x00\x01\x00\x00\x00\x00\x00",  # 2**40 bytes
        b"\xbb\x7f" + b"\xff" * 7,
        b"\x81" * 100_000,  # nested
        b"\xc1" * 100_000,  # nested tags
        b"\x9f" + b"\x00" * 70_000 + b"\xff",  # more items than any request has
        b"\x5f" + b"\x40" * 70_000 + b"\xff",  # empty chunks
        b"\xa1\x01\x02",  # a key that is no text
        b"\xa0\x00",  # something behind the end
        b"\xf9\x7c\x00",  # infinity
        b"\xff",
        b"\x1c",
        b"\x61\xff",  # no UTF-8
        b"\xc1\x61a",  # a time that is a text
    ],
)
def test_a_malformed_or_oversized_body_is_refused(body: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        read_cbor(body)

    assert caught.value.code == "SerializationException"


def test_an_empty_body_is_an_empty_structure() -> None:
    assert read_cbor(b"") == {}
