"""What the registry answers when schemas are past the limits of a comparison."""

import json
from typing import Any

import pytest

from headrace.gateway.registry import checker as checker_module
from headrace.gateway.registry import view as view_module
from headrace.gateway.registry.checker import SchemaChecker, SchemaSource, resolve_references
from headrace.gateway.registry.error import RegistryError
from headrace.schema import limit
from headrace.schema.compatibility import CompatibilityLevel, CompatibilityPolicy
from headrace.schema.schema import Reference, SchemaText, SchemaType
from testkit.sample.memory_registry import MemoryRegistry


def test_a_comparison_past_the_limits_is_refused_as_an_invalid_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit, "MAX_COMPARISONS", 0)
    checker = SchemaChecker()
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    first = SchemaSource(SchemaText(SchemaType.AVRO, text), {})
    second = SchemaSource(SchemaText(SchemaType.AVRO, text.replace('"int"', '"long"')), {})

    with pytest.raises(RegistryError, match="cannot be compared") as refusal:
        checker.check(
            CompatibilityLevel.BACKWARD, CompatibilityPolicy.STRICT, second, [lambda: first]
        )

    assert refusal.value.code == 42201


def test_earlier_versions_are_looked_up_when_their_turn_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checker_module, "_REQUEST_CHARACTERS", 300)
    registry = MemoryRegistry()
    registry.register("other", '{"type":"record","name":"Other","fields":[]}')
    reference = {"name": "Other", "subject": "other", "version": 1}
    for index in range(50):
        fields = [{"name": "o", "type": "Other"}, {"name": f"f{index}", "type": "int"}]
        text = json.dumps({"type": "record", "name": "R", "fields": fields})
        registry.call("PUT", "/config", {"compatibility": "NONE"})
        registry.register("a", text, references=[reference])
    registry.call("PUT", "/config", {"compatibility": "FULL_TRANSITIVE"})
    looked_up: list[str] = []
    resolve = view_module.resolve_references

    def counted(state: Any, subject: str, *rest: Any, **options: Any) -> Any:
        looked_up.append(subject)
        return resolve(state, subject, *rest, **options)

    monkeypatch.setattr(view_module, "resolve_references", counted)
    fresh = MemoryRegistry()  # as after a restart
    for each in registry.log:
        fresh.state.apply(each)
    body = {"schema": '{"type":"record","name":"R","fields":[]}'}
    assert fresh.code("POST", "/compatibility/subjects/a/versions", body) == 50002
    assert 0 < len(looked_up) < 10


def test_references_are_resolved_up_to_the_limit_of_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = MemoryRegistry()
    references = []
    for index in range(10):
        registry.register(f"s{index}", f'{{"type":"record","name":"R{index}","fields":[]}}')
        references.append(Reference(f"R{index}", f"s{index}", 1))
    monkeypatch.setattr(limit, "MAX_TOTAL_CHARACTERS", 100)
    found: list[str] = []
    version = registry.state.version
    monkeypatch.setattr(
        registry.state, "version", lambda name, number: found.append(name) or version(name, number)
    )
    with pytest.raises(RegistryError, match="characters together") as refusal:
        resolve_references(registry.state, "a", references)
    assert refusal.value.code == 42201
    assert found == ["s0", "s1", "s2"]
