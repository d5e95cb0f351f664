"""Which policy decides about a request, whatever else the request names."""

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace.gateway.kinesis.authorization import authorize
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.identity.shard_iterator import ShardIterator
from headrace.gateway.kinesis.operation.get import get_records
from headrace.gateway.kinesis.operation.policy import put_resource_policy
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.stream.stream_state import Consumer, StreamStatus, new_stream
from testkit.simulation.kinesis_memory import memory_service

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/"
READER = f"{ARN}one/consumer/reader:1"


def statement(effect: str, action: str, resource: str = "*", principal: Any = "*") -> str:
    members = {"Effect": effect, "Principal": principal, "Action": action, "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [members]})


@pytest.fixture
def service() -> KinesisService:
    made = memory_service(principals={"BOB": "arn:aws:iam::111122223333:user/bob"})
    for name in ("one", "two"):
        stream = replace(new_stream(name, 1, 1_000), status=StreamStatus.ACTIVE)
        made.store.change(name, lambda _, stream=stream: stream)  # type: ignore[misc]
    return made


def put(service: KinesisService, arn: str, text: str) -> None:
    put_resource_policy(service, {"ResourceARN": arn, "Policy": text})


def refused(service: KinesisService, key: str, operation: str, **request: Any) -> bool:
    try:
        authorize(service, key, operation, request)
    except ServiceError as error:
        assert error.code == "AccessDeniedException"
        return True
    return False


def test_get_records_is_decided_by_the_stream_of_its_iterator(service: KinesisService) -> None:
    put(service, f"{ARN}one", statement("Deny", "kinesis:GetRecords"))
    iterator = ShardIterator("one", 1_000, 0, 0).sealed(service.store.seal, service.now_ms())
    other = {"ShardIterator": iterator, "StreamARN": f"{ARN}two"}

    assert refused(service, "OWN", "GetRecords", ShardIterator=iterator)
    assert refused(service, "OWN", "GetRecords", **other)
    with pytest.raises(ServiceError, match="not of the stream"):
        next(get_records(service, other))


def test_the_policy_of_a_consumer_opens_nothing_of_its_stream(service: KinesisService) -> None:
    reader = Consumer("reader", 1_000, policy=statement("Allow", "kinesis:*"))
    service.store.change("one", lambda known: known and known.changed(consumers=(reader,)))

    assert not refused(service, "BOB", "SubscribeToShard", ConsumerARN=READER)
    for operation in ("DeleteStream", "PutRecord", "ListShards", "DescribeStream"):
        assert refused(service, "BOB", operation, StreamARN=READER), operation
        assert refused(service, "BOB", operation, StreamARN=f"{ARN}one", ConsumerName="reader")
    with pytest.raises(ServiceError, match="no ARN of a stream"):
        service.stream_name({"StreamARN": READER})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (statement("Deny", "kinesis:*", resource=f"{ARN}two"), "does not speak of"),
        (
            statement("Deny", "kinesis:*", resource=f"{ARN}one".replace("us-east-1", "eu-west-1")),
            "does not speak of",
        ),
        (
            statement("Deny", "kinesis:*", principal={"AWS": "arn:aws:iam::111122223333:user/*"}),
            "wildcard",
        ),
        (statement("Deny", "*").replace('"Effect"', '"Effect": "Deny", "Effect"'), "comes twice"),
    ],
)
def test_a_denial_that_would_protect_nothing_is_refused_when_it_is_put(
    service: KinesisService, text: str, reason: str
) -> None:
    with pytest.raises(ServiceError, match=reason):
        put(service, f"{ARN}one", text)


def test_a_policy_for_the_stream_itself_is_taken(service: KinesisService) -> None:
    put(service, f"{ARN}one", statement("Allow", "kinesis:Get*", resource=f"{ARN}one"))
    iterator = ShardIterator("one", 1_000, 0, 0).sealed(service.store.seal, service.now_ms())
    assert not refused(service, "BOB", "GetRecords", ShardIterator=iterator)
    assert refused(service, "BOB", "PutRecord", StreamARN=f"{ARN}one")


def test_a_stream_can_deny_channels_and_allows_them_to_no_other_account(
    service: KinesisService,
) -> None:
    channel = {"StreamConfigurationList": [{"StreamARN": f"{ARN}one"}]}
    arn = {"ChannelARN": "arn:aws:kinesis:us-east-1:000000000000:channel/one"}
    put(service, f"{ARN}one", statement("Allow", "kinesis:*"))

    assert not refused(service, "OWN", "CreateChannel", **channel)
    assert refused(service, "BOB", "CreateChannel", **channel)
    assert refused(service, "BOB", "DescribeChannel", **arn)
    assert not refused(service, "OWN", "DeleteChannel", **arn)
    put(service, f"{ARN}one", statement("Deny", "kinesis:CreateChannel"))
    assert refused(service, "OWN", "CreateChannel", **channel)
