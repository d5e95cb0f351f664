"""Requests are checked as the service checks them, with its sentences."""

import base64
from typing import Any

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.protocol.input_check import check_input
from headrace.gateway.kinesis.protocol.service_model import service_model
from headrace.gateway.kinesis.protocol.timestamp import Timestamp


def checked(operation: str, raw: Any) -> dict[str, Any]:
    return check_input(service_model().operations[operation], raw)


def refusal(operation: str, raw: Any) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        checked(operation, raw)
    return caught.value


def test_the_model_has_every_operation() -> None:
    assert len(service_model().operations) >= 45


def test_blobs_and_times_are_converted_and_unknown_members_left_out() -> None:
    put = checked("PutRecord", {"Data": base64.b64encode(b"\0\xff").decode(), "Newer": 1})
    got = checked(
        "GetShardIterator",
        {"ShardId": "s", "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1.5},
    )

    assert put == {"Data": b"\0\xff"}
    assert got["Timestamp"] == Timestamp(1500)


def test_null_counts_as_absent() -> None:
    error = refusal("CreateStream", {"StreamName": None})

    assert error.code == "ValidationException"
    assert error.message == (
        "1 validation error detected: Value null at 'streamName' failed to satisfy constraint: "
        "Member must not be null"
    )


@pytest.mark.parametrize(
    ("operation", "raw", "constraint"),
    [
        (
            "CreateStream",
            {"StreamName": "a b"},
            "Value 'a b' at 'streamName' failed to satisfy constraint: "
            "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        ),
        (
            "CreateStream",
            {"StreamName": "x" * 129},
            f"Value '{'x' * 129}' at 'streamName' failed to satisfy constraint: "
            "Member must have length less than or equal to 128",
        ),
        (
            "CreateStream",
            {"StreamName": "x", "ShardCount": 0},
            "Value '0' at 'shardCount' failed to satisfy constraint: "
            "Member must have value greater than or equal to 1",
        ),
        (
            "UpdateShardCount",
            {"TargetShardCount": 1, "ScalingType": "FAST"},
            "Value 'FAST' at 'scalingType' failed to satisfy constraint: "
            "Member must satisfy enum value set: [UNIFORM_SCALING]",
        ),
        (
            "PutRecords",
            {"Records": [{"Data": "", "PartitionKey": "a"}, {"Data": "", "PartitionKey": ""}]},
            "Value '' at 'records.2.member.partitionKey' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1",
        ),
    ],
)
def test_a_limit_that_is_broken_is_named(operation: str, raw: Any, constraint: str) -> None:
    assert refusal(operation, raw).message == f"1 validation error detected: {constraint}"


def test_many_faults_are_counted_and_not_repeated_without_end() -> None:
    error = refusal("PutRecords", {"Records": [{"PartitionKey": ""}] * 500})

    assert error.message is not None and error.message.startswith("10 validation errors detected")
    assert len(error.message) < 3000


def test_a_list_that_is_too_long_is_not_repeated_in_the_message() -> None:
    error = refusal("PutRecords", {"Records": [{"Data": "A" * 4000}] * 501})

    assert error.message == (
        "1 validation error detected: Value '[501 members]' at 'records' failed to satisfy "
        "constraint: Member must have length less than or equal to 500"
    )


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "text",
        {"Data": 5},
        {"Data": "not base64!"},
        {"Data": []},
        {"Data": "", "PartitionKey": True},
        {"Data": "", "PartitionKey": {}},
        {"Data": "", "PartitionKey": "\ud800"},
    ],
)
def test_a_wrong_type_is_a_serialization_exception(raw: Any) -> None:
    assert refusal("PutRecord", raw).code == "SerializationException"


@pytest.mark.parametrize("count", [True, "3", float("nan"), 2**31, [], {}])
def test_a_number_is_a_number(count: Any) -> None:
    error = refusal("CreateStream", {"StreamName": "x", "ShardCount": count})

    assert error.code == "SerializationException"
