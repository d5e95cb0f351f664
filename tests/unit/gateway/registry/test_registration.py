"""What requests come to, given a state: registered, found, refused, deleted."""

import json
from typing import Any

import pytest

from headrace.gateway.access.rights import Rights
from headrace.gateway.registry import registration
from headrace.gateway.registry.checker import SchemaChecker
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.operation import schema as schema_operation
from headrace.gateway.registry.operation.table import find_routes
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.record import schema_record, write_json, write_key
from headrace.gateway.registry.state.registry_state import LogRecord, Outcome, RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.view import Plan, RegistryView
from headrace.schema.schema import SchemaType
from testkit.sample.memory_registry import MemoryRegistry


class Registry:
    """A registry without a topic: what a write plans is applied at once."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.view = RegistryView(lambda step: step(self.state), SchemaChecker())
        self.offset = 0
        self.log: list[LogRecord] = []

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        rights: Rights = Rights(write=("",)),  # noqa: B008 - frozen
        **query: str,
    ) -> Any:
        match = find_routes(path.strip("/").split("/"))
        route, names = match.routes[method]
        request = Request(method, names, query, body, match.context, rights)
        answer = route.serve(self.view, request)
        if not isinstance(answer, Plan):
            return answer
        for each in answer.records:
            value = None if each.value is None else write_json(each.value)
            record = LogRecord(self.offset, write_key(each.key), value, ts=0)
            assert self.state.apply(record) is Outcome.APPLIED
            self.log.append(record)
            self.offset += 1
        return answer.answer

    def code(self, *arguments: Any, **query: str) -> int:
        with pytest.raises(RegistryError) as refusal:
            self.call(*arguments, **query)
        return refusal.value.code

    def register(self, subject: str, text: str, **members: Any) -> Any:
        return self.call("POST", f"/subjects/{subject}/versions", {"schema": text, **members})


@pytest.fixture
def registry() -> Registry:
    return Registry()


def record(*fields: str, default: str | None = None) -> str:
    return json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": name, "type": "string"} | ({} if default is None else {"default": default})
                for name in fields
            ],
        }
    )


def test_the_same_schema_has_one_id_and_one_version(registry: Registry) -> None:
    first = registry.register("a", record("x"))
    assert (first["id"], first["version"]) == (1, 1)
    spaced = json.dumps(json.loads(record("x")), indent=3)
    assert registry.register("a", spaced) == first
    assert registry.register("b", spaced)["id"] == 1
    assert registry.register("c", record("y"))["id"] == 2
    assert registry.call("GET", "/schemas/ids/1/subjects") == ["a", "b"]
    assert registry.call("GET", f"/schemas/guids/{first['guid']}")["schema"] == first["schema"]
    assert registry.call("GET", f"/schemas/guids/{first['guid']}/ids") == [
        {"context": ".", "id": 1}
    ]


def test_what_does_not_fit_is_refused(registry: Registry) -> None:
    registry.register("a", record("x"))
    body = {"schema": record("x", "y")}
    path = "/subjects/a/versions"
    assert registry.code("POST", path, body) == 409
    assert registry.call("POST", f"/compatibility{path}/latest", body) == {"is_compatible": False}
    verdict = registry.call("POST", f"/compatibility{path}", body, verbose="True")
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in each for each in verdict["messages"])
    registry.call("PUT", "/config/a", {"compatibility": "forward"})
    assert registry.call("POST", path, body)["version"] == 2
    assert registry.code("POST", path, {"schema": "{"}) == 42201
    assert registry.code("POST", path, {"schema": ""}) == 42201
    assert registry.code("POST", path, {"schema": "x", "schemaType": "XML"}) == 42201
    assert registry.code("POST", f"/compatibility{path}/9", body) == 40402
    assert registry.code("GET", f"{path}/0") == 42202
    assert registry.code("GET", f"{path}/last") == 42202
    assert registry.code("GET", f"{path}/9") == 40402
    assert registry.code("GET", "/subjects/none/versions/1") == 40401


def test_a_transitive_level_looks_at_all_versions(registry: Registry) -> None:
    registry.call("PUT", "/config", {"compatibility": "BACKWARD_TRANSITIVE"})
    registry.register("a", record("x"))
    registry.call("PUT", "/config/a", {"compatibility": "NONE"})
    registry.register("a", record("x", "y"))
    registry.call("DELETE", "/config/a")
    # The latest version has y, the first one has not.
    assert registry.code("POST", "/subjects/a/versions", {"schema": record("y", "x", "x2")}) == 409
    new = record("x", "y", default="")
    assert registry.register("a", new)["version"] == 3


def test_deletion_is_soft_first(registry: Registry) -> None:
    registry.register("a", record("x"))
    assert registry.code("DELETE", "/subjects/a", permanent="true") == 40405
    assert registry.call("DELETE", "/subjects/a") == [1]
    assert registry.code("DELETE", "/subjects/a") == 40404
    assert registry.code("GET", "/subjects/a/versions") == 40401
    assert registry.call("GET", "/subjects") == []
    assert registry.call("GET", "/subjects", deleted="true") == ["a"]
    assert registry.call("GET", "/subjects", deletedOnly="true") == ["a"]
    assert registry.call("GET", "/schemas/ids/1")["schema"]  # records are still read with it
    again = registry.register("a", record("x"))
    assert (again["id"], again["version"]) == (1, 2)
    assert registry.call("DELETE", "/subjects/a/versions/2") == 2
    assert registry.code("DELETE", "/subjects/a/versions/2") == 40406
    assert registry.call("DELETE", "/subjects/a", permanent="true") == [1, 2]
    assert registry.code("GET", "/schemas/ids/1") == 40403
    assert registry.code("DELETE", "/subjects/a") == 40401


def test_a_version_that_others_refer_to_stays(registry: Registry) -> None:
    registry.register("user", record("x"))
    text = '{"type":"record","name":"W","fields":[{"name":"u","type":"R"}]}'
    reference = {"name": "R", "subject": "user", "version": -1}
    assert registry.code("POST", "/subjects/w/versions", {"schema": text}) == 42201
    registry.register("w", text, references=[reference])
    assert registry.call("GET", "/subjects/w/versions/1")["references"] == [
        {"name": "R", "subject": "user", "version": 1}
    ]
    assert registry.call("GET", "/subjects/user/versions/1/referencedby") == [2]
    assert registry.code("DELETE", "/subjects/user/versions/1") == 42206
    assert registry.code("DELETE", "/subjects/user") == 42206
    registry.call("DELETE", "/subjects/w")
    assert registry.call("DELETE", "/subjects/user") == [1]


def test_modes(registry: Registry) -> None:
    registry.register("a", record("x"))
    registry.call("PUT", "/mode", {"mode": "READONLY"})
    assert registry.register("a", record("x"))["id"] == 1  # it is there already
    assert registry.code("POST", "/subjects/a/versions", {"schema": '"int"'}) == 42205
    assert registry.code("DELETE", "/subjects/a") == 42205
    registry.call("PUT", "/mode/b", {"mode": "READWRITE"})
    assert registry.register("b", '"int"')["id"] == 2
    assert registry.code("GET", "/mode/a") == 40409
    assert registry.call("GET", "/mode/a", defaultToGlobal="true") == {"mode": "READONLY"}
    assert registry.code("PUT", "/mode", {"mode": "ODD"}) == 42204
    registry.call("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert registry.code("POST", "/subjects/b/versions", {"schema": '"long"'}) == 42205
    assert registry.call("DELETE", "/mode/b") == {"mode": "READWRITE"}


def test_imports_keep_their_ids(registry: Registry) -> None:
    registry.register("a", '"string"')
    assert registry.code("PUT", "/mode", {"mode": "IMPORT"}) == 42205
    body = {"schema": '"int"', "id": 77, "version": 5}
    assert registry.code("POST", "/subjects/imported/versions", body) == 42205
    registry.call("PUT", "/mode/imported", {"mode": "IMPORT"})
    assert registry.call("POST", "/subjects/imported/versions", body)["id"] == 77
    assert registry.call("GET", "/subjects/imported/versions") == [5]
    other = {"schema": '"long"', "id": 77, "version": 6}
    assert registry.code("POST", "/subjects/imported/versions", other) == 42207
    assert registry.code("POST", "/subjects/imported/versions", {"schema": '"long"'}) == 42205
    registry.call("DELETE", "/mode/imported")
    assert registry.register("b", '"double"')["id"] == 78


def test_contexts_are_rooms_of_their_own(registry: Registry) -> None:
    registry.register("a", '"string"')
    assert registry.register(":.eu:a", '"int"')["id"] == 1
    registry.call("PUT", "/config/:.eu:", {"compatibility": "NONE"})
    assert (
        registry.call("POST", "/contexts/eu/subjects/a/versions", {"schema": '"long"'})["id"] == 2
    )
    assert registry.call("GET", "/contexts") == [".", ".eu"]
    assert registry.call("GET", "/subjects") == [":.eu:a", "a"]
    assert registry.call("GET", "/contexts/eu/subjects") == [":.eu:a"]
    assert registry.call("GET", "/subjects", subjectPrefix="") == ["a"]
    assert registry.call("GET", "/schemas/ids/2", subject=":.eu:")["schema"] == '"long"'
    assert registry.code("GET", "/schemas/ids/2") == 40403
    assert registry.code("DELETE", "/contexts/.eu") == 42211
    registry.call("DELETE", "/subjects/:.eu:a")
    registry.call("DELETE", "/subjects/:.eu:a", permanent="true")
    registry.call("DELETE", "/contexts/.eu")
    assert registry.call("GET", "/contexts") == ["."]


def test_configurations(registry: Registry) -> None:
    assert registry.call("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.code("GET", "/config/a") == 40408
    assert registry.code("PUT", "/config", {"compatibility": "odd"}) == 42203
    change = {"compatibility": "FULL", "compatibilityLevel": None}
    assert registry.call("PUT", "/config/a", change) == {"compatibility": "FULL"}
    registry.call("PUT", "/config/a", {"alias": "b"})
    assert registry.call("GET", "/config/a") == {"compatibilityLevel": "FULL", "alias": "b"}
    registry.register("b", '"string"')
    assert registry.call("GET", "/subjects/a/versions/latest")["subject"] == "b"
    assert registry.call("DELETE", "/config/a")["compatibilityLevel"] == "FULL"
    assert registry.code("DELETE", "/config/a") == 40401
    assert registry.code("PUT", "/config", {"normalize": "yes"}) == 400


def test_metadata_and_rules(registry: Registry) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    registry.call("PUT", "/config/a", {"defaultMetadata": {"properties": {"team": "x"}}})
    metadata = {"properties": {"owner": "ann"}}
    first = registry.register("a", '"int"', metadata=metadata, ruleSet={"domainRules": [rule]})
    assert first["metadata"] == {"properties": {"owner": "ann", "team": "x"}}
    assert first["ruleSet"] == {"domainRules": [rule]}
    assert registry.register("b", '"int"')["id"] != first["id"]  # the same text without rules
    found = registry.call("GET", "/subjects/a/metadata", key="owner", value="ann")
    assert found["version"] == 1
    assert registry.code("GET", "/subjects/a/metadata", key="owner", value="bob") == 40403
    changed = {"metadata": {"properties": {"owner": "bob"}}}  # the schema stays
    assert registry.call("POST", "/subjects/a/versions", changed)["version"] == 2
    assert registry.call("GET", "/subjects/a/versions/2")["ruleSet"] == {"domainRules": [rule]}
    bad = {"schema": '"int"', "ruleSet": {"domainRules": [{**rule, "mode": "UPGRADE"}]}}
    assert registry.code("POST", "/subjects/a/versions", bad) == 42210
    assert len(registry.call("GET", "/schemas", ruleType="CEL", latestOnly="true")) == 1


def test_lists_show_what_may_be_read(registry: Registry) -> None:
    registry.register("orders-value", '"int"')
    registry.register("users-value", '"long"')
    rights = Rights(read=("orders-",))
    assert registry.call("GET", "/subjects", None, rights) == ["orders-value"]
    assert len(registry.call("GET", "/schemas", None, rights)) == 1
    assert registry.code("GET", "/schemas/ids/2", None, rights) == 40403


def test_pages(registry: Registry) -> None:
    for name in "abcd":
        registry.register(name, '"int"')
    assert registry.call("GET", "/subjects", offset="1", limit="2") == ["b", "c"]
    assert registry.call("GET", "/subjects", offset="9") == []
    assert registry.code("GET", "/subjects", offset="x") == 400


@pytest.mark.parametrize("subject", ["__GLOBAL", "a\nb", "x" * 1025])
def test_names_that_no_subject_can_have(registry: Registry, subject: str) -> None:
    request = Request("POST", {"subject": subject}, {}, {"schema": '"int"'})
    route, _ = find_routes(["subjects", "s", "versions"]).routes["POST"]
    with pytest.raises(RegistryError) as refusal:
        route.serve(registry.view, request)
    assert refusal.value.code == 42208


def test_what_another_registry_has_written_with_spaces_is_the_same(registry: Registry) -> None:
    stored = schema_record(StoredSchema("a", 1, 5, SchemaType.AVRO, '{ "type" : "string" }'))
    assert stored.value is not None
    registry.state.apply(LogRecord(0, write_key(stored.key), write_json(stored.value)))
    assert registry.register("a", '"string"')["id"] == 5
    path = "/subjects/a/versions"
    normalized = registry.call("POST", path, {"schema": '{"type":"string"}'}, normalize="True")
    assert normalized["version"] == 1


def test_a_page_of_schemas_is_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_operation, "_MOST_CHARACTERS", 12)
    for name in "abc":
        registry.register(name, '"string"' if name == "a" else '"int"')
    assert registry.code("GET", "/schemas") == 400
    assert len(registry.call("GET", "/schemas", limit="1")) == 1


EVE = Rights(read=("shown-",), write=("eve-",))


def denied(registry: Registry, method: str, path: str, body: Any = None, **query: str) -> bool:
    return registry.code(method, path, body, EVE, **query) == 40301


def test_an_alias_gives_no_right_to_what_it_names(registry: Registry) -> None:
    registry.register("secret-value", record("x"))
    registry.register("shown-value", record("x"))
    for name, alias in (("eve-x", "secret-value"), ("eve-y", "shown-value")):
        assert denied(registry, "PUT", f"/config/{name}", {"alias": alias})
        registry.call("PUT", f"/config/{name}", {"alias": alias})
        body = {"schema": record("x")}
        for method, path in (
            ("POST", f"/subjects/{name}/versions"),
            ("DELETE", f"/subjects/{name}"),
            ("DELETE", f"/subjects/{name}/versions/latest"),
        ):
            assert denied(registry, method, path, body)
    for method, path in (
        ("GET", "/subjects/{}/versions/latest"),
        ("GET", "/subjects/{}/versions/1/schema"),
        ("GET", "/subjects/{}/versions/1/referencedby"),
        ("GET", "/subjects/{}/versions"),
        ("POST", "/subjects/{}"),
        ("POST", "/compatibility/subjects/{}/versions"),
        ("POST", "/compatibility/subjects/{}/versions/latest"),
    ):
        body = {"schema": record("x")}
        assert denied(registry, method, path.format("eve-x"), body)
        assert registry.call(method, path.format("eve-y"), body, EVE) is not None
    assert denied(registry, "GET", "/subjects/eve-x/metadata")
    registry.call("PUT", "/config/eve-x", {"alias": "eve-z"}, EVE)
    assert registry.call("POST", "/subjects/eve-x/versions", {"schema": '"int"'}, EVE)["id"] == 2


def test_only_who_writes_a_whole_context_imports_into_it(registry: Registry) -> None:
    assert denied(registry, "PUT", "/mode/eve-x", {"mode": "IMPORT"})
    registry.call("PUT", "/mode/eve-x", {"mode": "IMPORT"})
    body = {"schema": '"int"', "id": 7}
    assert denied(registry, "POST", "/subjects/eve-x/versions", body)
    assert registry.call("POST", "/subjects/eve-x/versions", body)["id"] == 7
    assert registry.call("POST", "/subjects/eve-x/versions", body, EVE)["id"] == 7
    context = Rights(write=(":.eu:",))
    registry.call("PUT", "/mode/:.eu:x", {"mode": "IMPORT"}, context)
    assert registry.call("POST", "/subjects/:.eu:x/versions", body, context)["id"] == 7


def test_an_imported_id_leaves_room_for_the_next_ones(registry: Registry) -> None:
    registry.call("PUT", "/mode", {"mode": "IMPORT"})
    path = "/subjects/a/versions"
    assert registry.code("POST", path, {"schema": '"int"', "id": 2**31 - 1}) == 42205
    assert registry.call("POST", path, {"schema": '"int"', "id": 1_000_000})["id"] == 1_000_000
    assert registry.code("POST", path, {"schema": '"long"', "id": 2_000_001}) == 42205
    assert registry.call("POST", path, {"schema": '"long"', "id": 2_000_000})["id"] == 2_000_000


def test_the_first_imported_id_may_be_high(registry: Registry) -> None:
    registry.call("PUT", "/mode", {"mode": "IMPORT"})
    body = {"schema": '"int"', "id": 100_000_000}
    assert registry.call("POST", "/subjects/a/versions", body)["id"] == 100_000_000
    registry.call("PUT", "/mode", {"mode": "READWRITE"})
    assert registry.register("a", '"long"')["id"] == 100_000_001


def test_an_id_is_not_given_again_after_its_end(registry: Registry) -> None:
    registry.register("a", '"int"')
    assert registry.register("b", '"long"')["id"] == 2
    registry.call("DELETE", "/subjects/b")
    registry.call("DELETE", "/subjects/b", permanent="true")
    compacted = {each.key: each for each in registry.log}
    registry.state = RegistryState()
    for each in sorted(compacted.values(), key=lambda each: each.offset):
        if each.value is not None:
            registry.state.apply(each)
    assert registry.register("c", '"string"')["id"] == 3


def test_an_import_into_the_default_context_does_not_touch_others(registry: Registry) -> None:
    registry.register(":.eu:a", '"int"')
    registry.register(":.eu:b", '"long"')
    registry.call("DELETE", "/subjects/:.eu:b")
    registry.call("PUT", "/mode", {"mode": "IMPORT"})
    assert registry.call("GET", "/subjects/:.eu:b/versions", deleted="true") == [1]


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/eve-z/versions",
        "/subjects/eve-z",
        "/compatibility/subjects/eve-z/versions",
        "/compatibility/subjects/eve-z/versions/latest",
    ],
)
def test_nobody_refers_to_what_they_may_not_read(registry: Registry, path: str) -> None:
    registry.register("secret-value", record("x"))
    registry.register("eve-z", record("y"))
    references = [{"name": "R", "subject": "secret-value", "version": 1}]
    body = {"schema": '"R"', "references": references}
    assert denied(registry, "POST", path, body, verbose="true")


def test_a_reference_has_a_version_that_can_be(registry: Registry) -> None:
    registry.register("a", record("x"))
    for version, code in ((2**40, 400), (-2, 400), (True, 400), (9, 42201)):
        body = {"schema": '"R"', "references": [{"name": "R", "subject": "a", "version": version}]}
        assert registry.code("POST", "/subjects/b/versions", body) == code


def test_contexts_are_bounded_in_number_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "MOST_CONTEXTS", 3)
    registry = MemoryRegistry()
    schema = {"schema": '"int"'}
    long = ":." + "\xe9" * 64 + ":s"
    assert registry.code("POST", f"/subjects/{long}/versions", schema) == 42208
    registry.register(":." + "e" * 127 + ":s", '"int"')
    registry.register(":.gone:s", '"int"')
    assert registry.code("POST", "/subjects/:.more:s/versions", schema) == 42205
    registry.call("DELETE", "/subjects/:.gone:s")
    registry.call("DELETE", "/subjects/:.gone:s", permanent="true")
    registry.call("DELETE", "/contexts/gone")
    assert ".gone" not in registry.state.contexts()
    # Its highest id is kept for ever, so another one does not take its place.
    assert registry.code("POST", "/subjects/:.more:s/versions", schema) == 42205
    registry.register(":.gone:s", '"long"')
    registry.register("s", '"int"')
    assert registry.state.max_id(".gone") == 2
