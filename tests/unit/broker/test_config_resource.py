"""Many resources in one request that changes configurations."""

import asyncio
from types import SimpleNamespace
from typing import Any

from headrace.broker.config_resource import ConfigRefusal, change_configs
from headrace.model.config_code import ConfigResourceType
from headrace.wire.error_code import ErrorCode


class CountedName(str):
    """A name that knows how often names were compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def change(names: list[str]) -> list[dict[str, Any]]:
    """Ask to change topics as a client that may change none."""
    guard = SimpleNamespace(may=lambda *question: False)
    resources = [
        SimpleNamespace(resource_type=ConfigResourceType.TOPIC, resource_name=name)
        for name in names
    ]

    def read_edit(_: object) -> ConfigRefusal:
        raise AssertionError("not allowed, and read all the same")

    broker: Any = SimpleNamespace(guard=guard)
    call: Any = None
    response = asyncio.run(change_configs(broker, call, resources, read_edit))
    answers: list[dict[str, Any]] = response["responses"]
    return answers


def test_a_resource_that_stands_twice_is_refused_each_time() -> None:
    codes = [each["error_code"] for each in change(["a", "b", "a"])]

    assert codes == [
        ErrorCode.invalid_request,
        ErrorCode.topic_authorization_failed,
        ErrorCode.invalid_request,
    ]


def test_many_resources_are_not_compared_each_with_each() -> None:
    CountedName.comparisons = 0

    change([CountedName(each) for each in range(1_000)])

    assert CountedName.comparisons < 10_000
