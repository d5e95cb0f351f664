"""Records of API v3: what they become, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.error import BrokerError, ConnectionLost
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.produce.record import Placed, Record
from headrace.gateway.rest.v3.record_document import read_record, write_result
from headrace.wire.error_code import ErrorCode

BINARY = {"value": {"type": "BINARY"}}


def test_a_record_has_data_headers_a_time_and_a_partition() -> None:
    record, types = read_record(
        {
            "partition_id": 3,
            "headers": [{"name": "h", "value": "AAE="}, {"name": "none"}],
            "key": {"type": "STRING", "data": "k"},
            "value": {"type": "JSON", "data": {"a": [1, "ü"]}},
            "timestamp": "2021-02-05T19:14:42.007Z",
        }
    )

    assert record == Record(
        b"k",
        '{"a":[1,"ü"]}'.encode(),
        (("h", b"\x00\x01"), ("none", None)),
        1612552482007,
        3,
    )
    assert types == {"key": {"type": "STRING"}, "value": {"type": "JSON"}}


@pytest.mark.parametrize("value", [None, {}, {"data": None}, {"type": "BINARY"}])
def test_no_data_is_null(value: Any) -> None:
    assert read_record({"value": value})[0].value is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"value": {"type": "BINARY", "data": "###"}}, 400),
        ({"value": {"type": "BINARY", "data": 5}}, 400),
        ({"value": {"type": "STRING", "data": 5}}, 400),
        ({"value": {"type": "XML", "data": "x"}}, 400),
        ({"value": 5}, 400),
        ({"value": {"type": "AVRO", "data": 1}}, 42206),
        ({"value": {"schema_id": 1, "data": 1}}, 42206),
        ({"value": {"data": 1}}, 42206),
        ({"partition_id": -1}, 400),
        ({"partition_id": 10**30}, 400),
        ({"partition_id": True}, 400),
        ({"timestamp": "yesterday"}, 400),
        ({"timestamp": "2021-02-05T19:14:42"}, 400),
        ({"timestamp": "1900-01-01T00:00:00Z"}, 400),
        ({"headers": [{"value": "AA=="}]}, 400),
        ({"headers": {}}, 400),
        ({"headers": [{"name": "a"}] * 1001}, 400),
    ],
)
def test_what_is_no_record_has_its_code(fields: dict[str, Any], code: int) -> None:
    with pytest.raises(RestError) as error:
        read_record(fields)
    assert error.value.code == code


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_PART = st.fixed_dictionaries(
    {},
    optional={"type": st.sampled_from(["BINARY", "STRING", "JSON", "AVRO"]) | _JSON, "data": _JSON},
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "key": _PART | _JSON,
            "value": _PART | _JSON,
            "headers": _JSON,
            "partition_id": _JSON,
            "timestamp": _JSON,
        },
    )
)
def test_any_object_is_a_record_or_refused(fields: dict[str, Any]) -> None:
    try:
        record, _ = read_record(fields)
    except RestError as error:
        assert error.status in (400, 422)
    else:
        assert record.size_bytes > 0


def test_a_result_repeats_types_and_sizes() -> None:
    result = write_result("c", "t", Record(b"k", b"abc"), BINARY, Placed(1, 7, 1500))

    assert result == {
        "error_code": 200,
        "cluster_id": "c",
        "topic_name": "t",
        "partition_id": 1,
        "offset": 7,
        "timestamp": "1970-01-01T00:00:01.500Z",
        "value": {"type": "BINARY", "size": 3},
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BrokerError(ErrorCode.unknown_topic_or_partition), 40403),
        (BrokerError(ErrorCode.message_too_large), 413),
        (BrokerError(ErrorCode.topic_authorization_failed), 40301),
        (BrokerError(ErrorCode.not_enough_replicas), 50003),
        (BrokerError(ErrorCode.unknown_server_error), 50002),
        (ConnectionLost("to 10.0.0.7:9092"), 50003),
    ],
)
def test_a_failure_has_its_code_and_no_addresses(error: Any, code: int) -> None:
    result = write_result("c", "t", Record(None, None), {}, error)

    assert result["error_code"] == code
    assert "10.0.0.7" not in result["message"]
