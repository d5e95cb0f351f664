"""The OpenAPI document: every route is in it, every schema it names exists."""

import re
from typing import Any

from headrace.gateway.rest.openapi import describe
from headrace.gateway.rest.table import ROUTES

DOCUMENT = describe(ROUTES)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*(references(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(references(each) for each in value))
    return set()


def test_every_route_is_described_once() -> None:
    described = {
        (method.upper(), path) for path, found in DOCUMENT["paths"].items() for method in found
    }

    assert described == {(each.method, each.path) for each in ROUTES}
    assert len(described) == len(ROUTES)
    assert len([path for path in DOCUMENT["paths"] if path.startswith("/v3")]) == 39


def test_every_schema_exists_and_is_used() -> None:
    schemas = {f"#/components/schemas/{each}" for each in DOCUMENT["components"]["schemas"]}

    used = references(DOCUMENT)
    assert used <= schemas
    # Lists of resources that exist only one by one.
    assert {each.rpartition("/")[2] for each in schemas - used} == set()


def test_every_parameter_is_named_and_operations_have_ids_of_their_own() -> None:
    ids = []
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            ids.append(operation["operationId"])
            named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
    assert len(ids) == len(set(ids))


def test_every_route_has_one_handler() -> None:
    for each in ROUTES:
        assert (each.handle is None) != (each.handle_async is None), each.path
