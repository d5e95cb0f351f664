"""Requests that tag schemas, and look-ups that show tags."""

import json
from typing import Any

import pytest

from testkit.sample.memory_registry import MemoryRegistry

FIELD = {"entityPath": "R.a", "entityType": "sr_field"}


def record(*fields: str) -> str:
    entries = [{"name": name, "type": "string", "default": ""} for name in fields]
    return json.dumps({"type": "record", "name": "R", "fields": entries})


def tags(*names: str, **entity: str) -> list[dict[str, Any]]:
    return [{"schemaEntity": {**FIELD, **entity}, "tags": list(names)}]


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.register("s", record("a"))
    return registry


def latest(registry: MemoryRegistry, **query: str) -> Any:
    return registry.call("GET", "/subjects/s/versions/latest", **query)


def test_a_schema_is_registered_with_tags(registry: MemoryRegistry) -> None:
    answer = registry.register("s", record("a"), schemaTagsToAdd=tags("PII", "SECRET"))
    assert answer["version"] == 2
    assert json.loads(answer["schema"])["fields"][0]["confluent:tags"] == ["PII", "SECRET"]
    assert answer["metadata"] == {"properties": {"confluent:version": "2"}}
    again = registry.register("s", record("a"), schemaTagsToAdd=tags("PII", "SECRET"))
    assert again == answer
    assert latest(registry, findTags="*")["schemaTags"] == tags("PII", "SECRET")
    assert latest(registry, findTags="true")["schemaTags"] == tags("PII", "SECRET")
    assert latest(registry, findTags="PII\nOTHER")["schemaTags"] == tags("PII", "SECRET")
    assert latest(registry, findTags="OTHER")["schemaTags"] == []
    assert "schemaTags" not in latest(registry)
    by_id = registry.call("GET", f"/schemas/ids/{answer['id']}", findTags="PII")
    assert by_id["schemaTags"] == tags("PII", "SECRET")


def test_tags_that_go_make_another_version(registry: MemoryRegistry) -> None:
    registry.register("s", record("a"), schemaTagsToAdd=tags("PII"))
    answer = registry.register(
        "s", latest(registry)["schema"], schemaTagsToRemove=tags("PII", entityPath=".R.a")
    )
    assert (answer["version"], answer["metadata"]["properties"]["confluent:version"]) == (3, "3")
    assert latest(registry, findTags="*")["schemaTags"] == []
    assert registry.register("s", record("a"))["version"] == 3


def test_a_version_is_tagged(registry: MemoryRegistry) -> None:
    body = {"tagsToAdd": tags("PII"), "newVersion": 2, "metadata": {"properties": {"o": "me"}}}
    answer = registry.call("POST", "/subjects/s/versions/1/tags", body)
    assert answer["version"] == 2
    assert answer["metadata"]["properties"] == {"confluent:version": "2", "o": "me"}
    rule = {"name": "r", "type": "CEL", "kind": "CONDITION", "mode": "WRITE"}
    merge = {"tagsToRemove": tags("PII"), "rulesToMerge": {"domainRules": [rule]}}
    answer = registry.call("POST", "/subjects/s/versions/latest/tags", merge)
    assert (answer["version"], answer["ruleSet"]) == (3, {"domainRules": [rule]})
    answer = registry.call("POST", "/subjects/s/versions/3/tags", {"rulesToRemove": ["r"]})
    assert (answer["version"], answer["ruleSet"]) == (4, {})
    assert registry.code("POST", "/subjects/s/versions/9/tags", {}) == 40402
    too_far = {"newVersion": 9, "tagsToAdd": tags("PII")}
    assert registry.code("POST", "/subjects/s/versions/1/tags", too_far) == 42201


def test_tags_are_carried_on_to_the_next_version(registry: MemoryRegistry) -> None:
    registry.register("s", record("a"), schemaTagsToAdd=tags("PII"))
    registry.register("s", record("a", "b"), propagateSchemaTags=True)
    assert latest(registry, findTags="*")["schemaTags"] == tags("PII")
    registry.register("s", record("b"), propagateSchemaTags=True)
    found = latest(registry, findTags="*")
    assert (found["version"], found["schemaTags"]) == (4, [])


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"schemaTagsToAdd": tags("PII", entityPath="R.none")}, 42201),
        ({"schemaTagsToAdd": tags("PII", entityType="record")}, 400),
        ({"schemaTagsToAdd": tags("PII", entityPath="")}, 400),
        ({"schemaTagsToAdd": {}}, 400),
        ({"schemaTagsToAdd": [1]}, 400),
        ({"schemaTagsToRemove": [{"schemaEntity": FIELD, "tags": "PII"}]}, 400),
        ({"schemaTagsToRemove": [{"schemaEntity": FIELD, "tags": [{}]}]}, 400),
        ({"propagateSchemaTags": "yes"}, 400),
    ],
)
def test_wrong_tags_are_refused(registry: MemoryRegistry, members: Any, code: int) -> None:
    body = {"schema": record("a"), **members}
    assert registry.code("POST", "/subjects/s/versions", body) == code
    assert latest(registry)["version"] == 1
