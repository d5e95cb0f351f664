"""What boto3 would refuse to send, the gateway refuses to take; what it takes, boto3 would send."""

import base64
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.protocol.input_check import check_input, walk_input
from headrace.gateway.kinesis.protocol.service_model import Shape, service_model
from headrace.gateway.kinesis.protocol.sound_input import Declined, sound_input

MODEL = ServiceModel(Loader().load_service_model("kinesis", "service-2"), "kinesis")
OPERATIONS = sorted(name for name, shape in service_model().operations.items() if shape)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def sound_values(shape: Shape) -> st.SearchStrategy[Any]:
    """Values of the right type, mostly within their limits."""
    if shape.kind == "structure":
        members = {name: values(each) for name, each in shape.members.items()}
        required = {name: members[name] for name in shape.required}
        optional = {name: each for name, each in members.items() if name not in required}
        return st.fixed_dictionaries(required, optional=optional) | st.fixed_dictionaries(
            {}, optional=members
        )
    if shape.kind == "list":
        return st.lists(values(shape.element[0]), max_size=3)
    if shape.kind == "map":
        return st.dictionaries(TEXT, values(shape.element[0]), max_size=3)
    if shape.kind == "string":
        texts = [TEXT, st.sampled_from(["a", "stream-1", "17", "shardId-000000000000"])]
        return st.one_of(*texts, *([st.sampled_from(shape.choices)] if shape.choices else []))
    if shape.kind == "blob":
        return st.binary(max_size=6)
    if shape.kind == "boolean":
        return st.booleans()
    return st.integers(-2, 2) | st.integers(-2, 20_000)


def values(shape: Shape) -> st.SearchStrategy[Any]:
    wrong = st.sampled_from([["a", 1], {"a": {"b": 1}}, 7, b"bytes"])
    return st.one_of(*[st.deferred(lambda: sound_values(shape))] * 5, wrong)


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, list) else value


def is_taken(operation: str, raw: Any) -> bool:
    try:
        check_input(service_model().operations[operation], raw)
    except ServiceError as error:
        assert error.code in ("ValidationException", "SerializationException")
        assert error.message is None or len(error.message) < 10_000
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_the_gateway_takes_boto3_would_send(data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    shape = service_model().operations[operation]
    assert shape is not None
    request = data.draw(sound_values(shape))

    if is_taken(operation, as_json(request)):
        members = MODEL.operation_model(operation).input_shape
        report = ParamValidator().validate(_known(request, shape), members)
        assert not report.has_errors(), report.generate_report()


def _known(value: Any, shape: Shape) -> Any:
    """Leave out members that the model lacks, as the gateway does; write bytes as texts where the
    model has texts, as JSON does."""
    if isinstance(value, dict) and shape.kind == "structure":
        return {
            name: _known(each, shape.members[name])
            for name, each in value.items()
            if name in shape.members
        }
    if isinstance(value, dict) and shape.kind == "map":
        return {name: _known(each, shape.element[0]) for name, each in value.items()}
    if isinstance(value, list) and shape.kind == "list":
        return [_known(each, shape.element[0]) for each in value]
    if isinstance(value, bytes) and shape.kind != "blob":
        return as_json(value)
    return value


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(OPERATIONS),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=10,
    ),
)
def test_any_value_is_taken_or_refused(operation: str, raw: Any) -> None:
    is_taken(operation, raw)
    is_taken(operation, {"StreamName": raw, "Records": raw, "Tags": raw, "Timestamp": raw})


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_fast_path_reads_what_the_walk_reads(data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from([*OPERATIONS, *["PutRecords"] * 20]))
    shape = service_model().operations[operation]
    assert shape is not None
    raw = as_json(data.draw(sound_values(shape)))

    try:
        found = sound_input(shape, raw)
    except Declined:
        return
    assert found == walk_input(shape, raw)
