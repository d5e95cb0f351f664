"""JSON 1.1: blobs in base64, times in seconds."""

import json
from typing import Any

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.protocol.json_body import read_json, write_json
from headrace.gateway.kinesis.protocol.timestamp import Timestamp


def test_blobs_and_times_are_written_as_the_service_does() -> None:
    written = write_json({"Data": b"\0\xff", "At": Timestamp(1_700_000_000_123), "n": None})

    assert json.loads(written) == {"Data": "AP8=", "At": 1_700_000_000.123, "n": None}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"[" * 200_000,
        b"[" + b"[]," * 100_000 + b"1]",
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        read_json(body)

    assert caught.value.code == "SerializationException"


def test_an_empty_body_is_an_empty_structure() -> None:
    assert read_json(b"") == {}


def test_the_largest_request_is_read() -> None:
    record = {"Data": "A" * 100, "PartitionKey": "," * 256, "ExplicitHashKey": "1"}

    assert len(read_json(json.dumps({"Records": [record] * 500}).encode())["Records"]) == 500


@pytest.mark.parametrize("rest", [{}, {"MillisBehindLatest": 0, "ChildShards": []}])
def test_records_are_written_as_any_other_list_is(rest: dict[str, Any]) -> None:
    record = {
        "SequenceNumber": "49646437577175378652512468275300102539007575037992501298",
        "ApproximateArrivalTimestamp": Timestamp(1_700_000_000_123),
        "Data": b"\0\xff" * 100,
        "EncryptionType": "NONE",
        "PartitionKey": 'cl\u00e9 "1"\\\n\U0001f600',
    }
    unkeyed = {name: each for name, each in record.items() if name != "PartitionKey"}
    records = [record, {**unkeyed, "Data": b""}, {**record, "EncryptionType": "KMS"}]

    written = write_json({**rest, "Records": records})

    assert json.loads(written) == json.loads(
        write_json({**rest, "Any": records}).replace(b'"Any"', b'"Records"')
    )
