"""ACLs between API v3 and Kafka's codes."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import Call, Request
from headrace.gateway.rest.v3.acl import create_acl, create_acls, delete_acls, search_acls
from headrace.wire.error_code import ErrorCode

ENTRY = {
    "resource_type": "TOPIC",
    "resource_name": "clicks-",
    "pattern_type": "PREFIXED",
    "principal": "User:anna",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
STORED = SimpleNamespace(
    resource_type=2,
    resource_name="clicks-",
    pattern_type=4,
    principal="User:anna",
    host="*",
    operation=3,
    permission_type=3,
)


class RecordingPool:
    """Answers every request, and keeps its body."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.body: Any = None

    def on_any(self, call: Callable[[Any], Any]) -> Any:
        return call(self)

    def on_controller(self, call: Callable[[Any], Any], codes: object) -> Any:
        return call(self)

    def call(self, api: object, body: Any) -> Any:
        self.body = body
        return self._answer


def made(pool: RecordingPool, body: Any = None, **query: str) -> Call:
    text = b"" if body is None else json.dumps(body).encode()
    request = Request("GET", {"cluster_id": "c"}, query, {}, text)
    return Call(request, pool, "http://proxy", "c")  # type: ignore[arg-type]


def test_entries_are_searched_by_what_the_query_names() -> None:
    found = SimpleNamespace(resource_type=2, resource_name="clicks-", pattern_type=4, acls=[STORED])
    answer = SimpleNamespace(error_code=ErrorCode.none, error_message=None, resources=[found])
    pool = RecordingPool(answer)

    document = search_acls(made(pool, principal="User:anna", operation="read")).document

    assert pool.body == {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": "User:anna",
        "host_filter": None,
        "operation": 3,
        "permission_type": 1,
    }
    [entry] = document["data"]
    assert {name: entry[name] for name in ENTRY} == ENTRY
    assert document["metadata"]["self"] == (
        "http://proxy/v3/clusters/c/acls?principal=User%3Aanna&operation=read"
    )


def test_entries_are_created_one_by_one_or_together() -> None:
    result = SimpleNamespace(error_code=ErrorCode.none, error_message=None)
    pool = RecordingPool(SimpleNamespace(results=[result]))

    assert create_acl(made(pool, ENTRY)).status == 201
    assert pool.body["creations"] == [
        {
            "resource_type": 2,
            "resource_name": "clicks-",
            "resource_pattern_type": 4,
            "principal": "User:anna",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        }
    ]
    assert create_acls(made(pool, {"data": [ENTRY, ENTRY]})).status == 201
    assert len(pool.body["creations"]) == 2


def test_deleted_entries_are_returned() -> None:
    result = SimpleNamespace(error_code=ErrorCode.none, error_message=None, matching_acls=[STORED])
    pool = RecordingPool(SimpleNamespace(filter_results=[result]))
    query = {name: ENTRY[name] for name in ("resource_type", "pattern_type", "operation")}

    document = delete_acls(made(pool, permission="ANY", **query)).document

    [entry] = document["data"]
    assert {name: entry[name] for name in ENTRY} == ENTRY


@pytest.mark.parametrize(
    "change",
    [{"resource_type": "TOPICS"}, {"operation": "ANY"}, {"pattern_type": "MATCH"}, {"host": 5}],
)
def test_other_entries_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RestError) as error:
        create_acl(made(RecordingPool(None), ENTRY | change))
    assert error.value.status == 400
