"""Any row of requests is answered in the model's shapes, or with an error that the model has.

The values come from the model's input shapes, with names that often exist. boto3's own validation
says of each request whether boto3 would send it; what boto3 would not send is refused.
"""

import base64
import json
from collections.abc import Generator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gateway.kinesis.authorization import authorize
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.operation.table import OPERATIONS
from headrace.gateway.kinesis.protocol.input_check import check_input
from headrace.gateway.kinesis.protocol.json_body import read_json, write_json
from headrace.gateway.kinesis.protocol.service_model import Shape, service_model
from headrace.gateway.kinesis.service import KinesisService, Response, Steps
from headrace.gateway.kinesis.stream.stream_state import StreamMode, new_stream
from testkit.process.kinesis_answer import problems
from testkit.simulation.kinesis_memory import memory_service

MODEL = ServiceModel(Loader().load_service_model("kinesis", "service-2"), "kinesis")
EVERYWHERE = {"ValidationException", "AccessDeniedException", "InvalidArgumentException"}
"""Errors that the service has for every operation, whatever its model says."""

STREAM = "arn:aws:kinesis:us-east-1:000000000000:stream/"
CHANNEL = "arn:aws:kinesis:us-east-1:000000000000:channel/one"
POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"},
    }
)
KNOWN: dict[str, list[Any]] = {
    "StreamId": ["a" * 20 + "-abc"],
    "StreamName": ["one"] * 4 + ["two", "three"],
    "ExclusiveStartStreamName": ["one", "a"],
    "StreamARN": [f"{STREAM}one"] * 4 + [f"{STREAM}two"],
    "ResourceARN": [f"{STREAM}one", f"{STREAM}one/consumer/reader:1000", f"{STREAM}three", CHANNEL],
    "ConsumerARN": [f"{STREAM}one/consumer/reader:1000", f"{STREAM}one/consumer/none:7"],
    "ChannelARN": [CHANNEL, f"{CHANNEL}-none"],
    "ChannelName": ["one", "two"],
    "BucketARN": ["arn:aws:s3:::lake"],
    "ExpectedBucketOwner": ["000000000000"],
    "OutputKeyTemplate": ["!{channel-name}/!{HH}", "a//b"],
    "DataFreshnessInSeconds": [1, 300, 1000],
    "ConsumerName": ["reader", "other"],
    "ShardId": [f"shardId-{at:012d}" for at in range(3)],
    "ShardToSplit": [f"shardId-{at:012d}" for at in range(3)],
    "ShardToMerge": [f"shardId-{at:012d}" for at in range(3)],
    "AdjacentShardToMerge": [f"shardId-{at:012d}" for at in range(3)],
    "ExclusiveStartShardId": ["shardId-000000000000", "x"],
    "NewStartingHashKey": ["17", str(2**126), str(2**128)],
    "ExplicitHashKey": ["0", str(2**127), str(2**128)],
    "StartingSequenceNumber": ["0", "49" + "0" * 54],
    "SequenceNumber": ["0", "49" + "0" * 54],
    "PartitionKey": ["k", "clé"],
    "KeyId": ["alias/one", "alias/none"],
    "Policy": [POLICY, "{}"],
    "ServiceExecutionRoleARN": ["arn:aws:iam::000000000000:role/delivery"],
    "RetentionPeriodHours": [24, 48, 9000],
    "TargetShardCount": [1, 2, 3, 4, 9],
    "ShardCount": [1, 2, 5],
    "MaxRecordSizeInKiB": [1024, 2048],
    "WarmThroughputMiBps": [0, 4, 300],
}


def values(name: str, shape: Shape) -> st.SearchStrategy[Any]:
    """Values of a member: mostly sound ones, and names that exist."""
    if name in KNOWN:
        return st.sampled_from(KNOWN[name])
    if shape.kind == "structure":
        members = {each: values(each, inner) for each, inner in shape.members.items()}
        required = {each: members.pop(each) for each in shape.required}
        return st.fixed_dictionaries(required, optional=members)
    if shape.kind == "list":
        return st.lists(values(name, shape.element[0]), min_size=shape.least or 0, max_size=3)
    if shape.kind == "map":
        return st.dictionaries(
            st.sampled_from(["a", "b"]), st.sampled_from(["", "1"]), min_size=1, max_size=2
        )
    if shape.choices:
        return st.sampled_from(shape.choices)
    return {
        "string": st.sampled_from(["a", "one", "17"]),
        "blob": st.binary(max_size=6),
        "boolean": st.booleans(),
        "timestamp": st.sampled_from([0, 1_700_000_000.5, 4_000_000_000]),
    }.get(shape.kind, st.integers(0, 200))


def requests() -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    choices = []
    for name in OPERATIONS:
        shape = service_model().operations[name]
        assert shape is not None
        members = {each: values(each, inner) for each, inner in shape.members.items()}
        members.pop("NextToken", None)  # a token that is made up is always refused
        required = {each: members.pop(each) for each in shape.required}
        if {"StreamName", "StreamARN"} <= members.keys():  # most requests name a stream, and once
            required["StreamName"] = members.pop("StreamName")
            del members["StreamARN"]
        body = st.fixed_dictionaries(required, optional=members)
        choices.append(st.tuples(st.just(name), body))
    return st.lists(st.one_of(choices), min_size=1, max_size=12)


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, list) else value


def as_boto3(value: Any, shape: Shape) -> Any:
    if shape.kind == "timestamp":
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, dict) and shape.kind == "structure":
        return {name: as_boto3(each, shape.members[name]) for name, each in value.items()}
    if isinstance(value, list):
        return [as_boto3(each, shape.element[0]) for each in value]
    return value


def made_service() -> KinesisService:
    service = memory_service(
        limits=False, master_keys={"alias/one": b"1" * 32}, channels_to="/nowhere"
    )
    service.keeper.change("one", lambda _: new_stream("one", 2, 1_000_000))
    service.keeper.change(
        "two", lambda _: new_stream("two", 4, 1_000_000, mode=StreamMode.ON_DEMAND)
    )
    register = {"StreamARN": f"{STREAM}one", "ConsumerName": "reader"}
    service.now_ms = lambda: 1_000_000  # type: ignore[method-assign]
    OPERATIONS["RegisterStreamConsumer"](service, register)
    del service.now_ms
    return service


def finished(outcome: Response | Steps) -> Response:
    """Return the response of an operation; in memory, what it waits for is there at once."""
    if not isinstance(outcome, Generator):
        return outcome
    while True:
        try:
            next(outcome)
        except StopIteration as end:
            response: Response = end.value
            return response


def answer_to(
    service: KinesisService, operation: str, request: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the answer to a request, None if it is refused. Both must be in the model."""
    raw = read_json(write_json(as_json(request)))
    try:
        members = check_input(service_model().operations[operation], raw)
        authorize(service, None, operation, members)
        response = finished(OPERATIONS[operation](service, members))
    except ServiceError as error:
        modelled = {each.name for each in MODEL.operation_model(operation).error_shapes}
        assert error.code in modelled | EVERYWHERE, (operation, error)
        assert error.message
        return None
    shape = MODEL.operation_model(operation).output_shape
    answer: dict[str, Any] = json.loads(write_json(response))
    assert answer == {} if shape is None else not problems(shape, answer, operation)
    return answer


@settings(max_examples=150, deadline=None)
@given(requests())
def test_every_answer_fits_the_model_and_nothing_breaks_the_service(
    rows: list[tuple[str, dict[str, Any]]],
) -> None:
    service = made_service()
    iterators: list[str] = []
    for operation, drawn in rows:
        request = drawn
        if "ShardIterator" in drawn and iterators:
            request = {**drawn, "ShardIterator": iterators[-1]}
        shape = service_model().operations[operation]
        assert shape is not None
        report = ParamValidator().validate(
            as_boto3(request, shape), MODEL.operation_model(operation).input_shape
        )
        answer = answer_to(service, operation, request)
        if answer is not None:
            assert not report.has_errors(), report.generate_report()
            iterators += [answer[each] for each in _ITERATORS if each in answer]
    for stream in service.store.streams.values():
        ends = [each.keys for each in stream.open_shards]
        assert (ends[0].start, ends[-1].end) == (0, 2**128 - 1)
        assert all(a.end + 1 == b.start for a, b in pairwise(ends))


def test_most_operations_succeed_with_known_names() -> None:
    """The test above would prove little if every request were refused."""
    service = made_service()
    arn = f"{STREAM}one"
    key = {"EncryptionType": "KMS", "KeyId": "alias/one"}
    put = {"StreamName": "one", "Data": b"x", "PartitionKey": "k"}
    for operation, request in (
        ("PutRecord", put),
        ("GetShardIterator", {**_FIRST, "ShardIteratorType": "TRIM_HORIZON"}),
        ("StartStreamEncryption", {"StreamARN": arn, **key}),
        ("PutRecord", put),
        ("SplitShard", {**_SPLIT, "NewStartingHashKey": "17"}),
        ("PutResourcePolicy", {"ResourceARN": arn, "Policy": POLICY}),
        ("GetResourcePolicy", {"ResourceARN": arn}),
        ("DescribeStream", {"StreamName": "one"}),
        ("CreateChannel", _CHANNEL),
        ("ListChannels", {}),
        ("TagResource", {"ResourceARN": CHANNEL, "Tags": {"a": "1"}}),
        ("DescribeChannel", {"ChannelARN": CHANNEL}),
        ("DeleteChannel", {"ChannelARN": CHANNEL}),
        ("DeleteStream", {"StreamName": "one", "EnforceConsumerDeletion": True}),
    ):
        assert answer_to(service, operation, request) is not None, operation


_ITERATORS = ("ShardIterator", "NextShardIterator")
_FIRST = {"StreamName": "one", "ShardId": "shardId-000000000000"}
_SPLIT = {"StreamName": "one", "ShardToSplit": "shardId-000000000000"}
_CHANNEL = {
    "ChannelName": "one",
    "ServiceExecutionRoleARN": "arn:aws:iam::000000000000:role/delivery",
    "StreamConfigurationList": [
        {"StreamARN": f"{STREAM}two", "RecordConfiguration": {"RecordFormatType": "JSON"}}
    ],
    "S3DestinationConfiguration": {
        "StorageConfiguration": {
            "BucketARN": "arn:aws:s3:::lake",
            "ExpectedBucketOwner": "000000000000",
            "CompressionType": "ZSTD",
        }
    },
}
