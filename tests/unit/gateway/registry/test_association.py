"""Associations of topics with subjects, and the records that Confluent's registry keeps of them."""

import json
from typing import Any

import pytest

from headrace.gateway.access.rights import Rights
from headrace.gateway.registry.state.registry_state import RegistryState
from testkit.sample.memory_registry import MemoryRegistry

RESOURCE = {"resourceName": "orders", "resourceNamespace": "lkc-1", "resourceId": "t-1"}


@pytest.fixture
def registry() -> MemoryRegistry:
    registry = MemoryRegistry()
    registry.register("s", '"int"')
    return registry


def body(*associations: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**RESOURCE, **members, "associations": list(associations)}


def test_a_topic_is_associated_with_a_subject(registry: MemoryRegistry) -> None:
    answer = registry.call("POST", "/associations", body({"subject": "s", "lifecycle": "STRONG"}))
    info = {"subject": "s", "associationType": "value", "lifecycle": "STRONG", "frozen": False}
    assert answer == {**RESOURCE, "resourceType": "topic", "associations": [info]}
    (found,) = registry.call("GET", "/associations/subjects/s")
    assert found.items() >= {**RESOURCE, **info}.items()
    assert registry.call("GET", "/associations/resources/t-1") == [found]
    assert registry.call("GET", "/associations/resources/lkc-1/orders") == [found]
    assert registry.call("GET", "/associations/resources/-/orders", associationType="key") == []
    assert registry.call("GET", "/associations/subjects/s", lifecycle="WEAK") == []


def test_the_record_is_confluents(registry: MemoryRegistry) -> None:
    registry.call("POST", "/associations", body({"subject": "s"}))
    record = registry.log[-1]
    assert record.key == (
        b'{"keytype":"ASSOC","tenant":"default","resourceName":"orders",'
        b'"resourceNamespace":"lkc-1","resourceType":"topic","associationType":"value",'
        b'"subject":"s","magic":0}'
    )
    value = json.loads(record.value or b"")
    assert list(value)[:3] == ["subject", "guid", "tenant"]
    assert (value["lifecycle"], value["frozen"]) == ("WEAK", False)
    again = RegistryState()
    for each in registry.log:
        again.apply(each)
    assert again.associations == registry.state.associations


def test_schemas_come_with_associations(registry: MemoryRegistry) -> None:
    kinds = [
        {"associationType": kind, "schema": {"schema": text}}
        for kind, text in (("key", '"long"'), ("value", '"string"'))
    ]
    answer = registry.call("PUT", "/associations/resources/t-1", body(*kinds))
    schemas = [each["schema"] for each in answer["associations"]]
    assert [each["id"] for each in schemas] == [1, 2]
    subjects = [":.lkc-1:orders-key", ":.lkc-1:orders-value"]
    assert [each["subject"] for each in schemas] == subjects
    assert registry.call("GET", "/subjects", subjectPrefix=":.lkc-1:") == subjects


def test_a_dry_run_writes_nothing(registry: MemoryRegistry) -> None:
    before = len(registry.log)
    registry.call("POST", "/associations", body({"subject": "s"}), dryRun="true")
    assert len(registry.log) == before


def test_conflicts_have_confluents_codes(registry: MemoryRegistry) -> None:
    post = ("POST", "/associations")
    put = ("PUT", "/associations/resources/t-1")
    strong = {"subject": "s", "lifecycle": "STRONG"}
    assert registry.code(*post, body({"subject": "none"})) == 40907
    registry.call(*post, body(strong))
    registry.call(*post, body(strong))
    assert registry.code(*post, body({"subject": "s", "lifecycle": "WEAK"})) == 40903
    assert registry.call(*put, body({"subject": "s", "lifecycle": "WEAK"}))
    other = {"resourceName": "o", "resourceId": "t-2"}
    assert registry.code(*post, body(strong, **other)) == 40904
    registry.call(*put, body(strong))
    assert registry.code(*post, body({"subject": "s"}, **other)) == 40905
    registry.register("s2", '"int"')
    assert registry.code(*put, body({"subject": "s2"})) == 42212
    assert registry.code(*put, body({"subject": "s", "frozen": True})) == 42212


def test_a_frozen_association_goes_only_with_its_subject(registry: MemoryRegistry) -> None:
    frozen = {"frozen": True, "schema": {"schema": '"long"'}}
    registry.call("POST", "/associations", body(frozen))
    path = "/associations/resources/t-1"
    assert registry.code("PUT", path, body({"lifecycle": "WEAK"})) == 40908
    assert registry.code("DELETE", path) == 40908
    assert registry.call("DELETE", path, cascadeLifecycle="true") is None
    assert registry.call("GET", "/subjects", subjectPrefix=":.lkc-1:", deleted="true") == []
    assert registry.code("DELETE", path) == 40410


def test_another_id_does_not_take_over_an_association(registry: MemoryRegistry) -> None:
    frozen = {"frozen": True, "schema": {"schema": '"long"'}}
    registry.call("POST", "/associations", body(frozen))
    registry.call("POST", "/associations", body({"subject": "s", "associationType": "key"}))
    before = dict(registry.state.associations)
    path = "/associations/resources/t-2"
    for wish, code in (
        ({"lifecycle": "WEAK"}, 40908),
        ({"lifecycle": "STRONG"}, 40908),
        ({"frozen": True, "schema": {"schema": '"int"'}}, 40908),
        ({"subject": "s", "associationType": "key"}, 42212),
        ({"subject": "s", "associationType": "key", "lifecycle": "STRONG"}, 42212),
    ):
        other = body(wish, resourceId="t-2")
        assert registry.code("POST", "/associations", other) == 40903
        assert registry.code("PUT", path, other) == code
    assert registry.state.associations == before


@pytest.mark.parametrize("lifecycles", [("STRONG",) * 2, ("STRONG", "WEAK"), ("WEAK", "STRONG")])
def test_associations_of_one_request_do_not_own_one_subject(
    registry: MemoryRegistry, lifecycles: tuple[str, str]
) -> None:
    wishes = [
        {"subject": "s", "associationType": kind, "lifecycle": lifecycle}
        for kind, lifecycle in zip(("key", "value"), lifecycles, strict=True)
    ]
    assert registry.code("POST", "/associations", body(*wishes)) == 40904
    assert registry.code("PUT", "/associations/resources/t-1", body(*wishes)) == 40904
    assert registry.state.associations == {}
    weak = [{**each, "lifecycle": "WEAK"} for each in wishes]
    assert registry.call("POST", "/associations", body(*weak))


@pytest.mark.parametrize(
    "members",
    [
        {"associations": None},
        {"associations": []},
        {"associations": [5]},
        {"associations": [{"subject": "s"}, {"subject": "s"}]},
        {"associations": [{"subject": "s", "associationType": "x"}]},
        {"associations": [{"subject": "s", "lifecycle": 5}]},
        {"associations": [{"subject": "s", "frozen": "yes"}]},
        {"associations": [{"subject": "s", "schema": "x"}]},
        {"associations": [{"subject": "\x00"}]},
        {"resourceId": None},
        {"resourceName": 5},
        {"resourceNamespace": "x" * 2000},
        {"resourceType": "table"},
    ],
)
def test_wrong_members_are_refused(registry: MemoryRegistry, members: dict[str, Any]) -> None:
    request = {**body({"subject": "s"}), **members}
    assert registry.code("POST", "/associations", request) == 42212


def test_a_user_sees_and_writes_associations_of_own_subjects(registry: MemoryRegistry) -> None:
    eve = Rights(write=("eve-",))
    registry.register("eve-s", '"int"')
    assert registry.code("POST", "/associations", body({"subject": "s"}), eve) == 40301
    registry.call("POST", "/associations", body({"subject": "s"}))
    assert registry.call("GET", "/associations/resources/t-1", None, eve) == []
    assert registry.code("DELETE", "/associations/resources/t-1", None, eve) == 40301
    own = body({"subject": "eve-s", "associationType": "key"})
    assert registry.call("PUT", "/associations/resources/t-1", own, eve)


def test_a_batch_answers_each_request_in_its_place(registry: MemoryRegistry) -> None:
    registry.call("POST", "/associations", body({"subject": "s", "associationType": "key"}))
    schema = {"schema": {"schema": '"long"'}}
    requests = [
        body({"opType": "CREATE", **schema}, resourceId="t-2", resourceName="pay"),
        body({"opType": "CREATE", "subject": "none"}, resourceId="t-3", resourceName="other"),
        body(
            {"opType": "DELETE", "associationType": "key"},
            {"opType": "UPSERT", "associationType": "value", "subject": "s"},
        ),
        body({"opType": "UPSERT", **schema}, resourceId="t-4", resourceName="more"),
        body({"opType": "DROP", "subject": "s"}),
    ]
    answer = registry.call("POST", "/associations:batch", {"requests": requests})
    results = answer["results"]
    codes = [each.get("error", {}).get("error_code") for each in results]
    assert codes == [None, 40907, None, None, 42212]
    first, last = (results[index]["result"]["associations"][0]["schema"] for index in (0, 3))
    assert (first["id"], last["id"]) == (1, 1)  # one schema of one context
    (left,) = registry.call("GET", "/associations/resources/t-1")
    assert left["associationType"] == "value"


def test_a_request_of_a_batch_is_done_as_a_whole(registry: MemoryRegistry) -> None:
    failing = body(
        {"opType": "CREATE", "subject": "s"}, {"opType": "DELETE", "associationType": "key"}
    )
    (result,) = registry.call("POST", "/associations:batch", {"requests": [failing]})["results"]
    assert result["error"]["error_code"] == 40410
    assert registry.call("GET", "/associations/resources/t-1") == []


def test_a_batch_is_checked_for_rights_and_form(registry: MemoryRegistry) -> None:
    request = body({"opType": "CREATE", "subject": "s"})
    path = ("POST", "/associations:batch")
    answer = registry.call(*path, {"requests": [request]}, Rights(write=("other",)))
    assert answer["results"][0]["error"]["error_code"] == 40301
    for requests in (None, [1], [{}] * 1001):
        assert registry.code(*path, {"requests": requests}) == 42212
    before = len(registry.log)
    registry.call(*path, {"requests": [request]}, dryRun="true")
    assert len(registry.log) == before
