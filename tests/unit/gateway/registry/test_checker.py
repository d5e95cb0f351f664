"""What the registry answers when schemas are past the limits of a comparison."""

import pytest

from headrace.gateway.registry.checker import SchemaChecker, SchemaSource
from headrace.gateway.registry.error import RegistryError
from headrace.schema import limit
from headrace.schema.compatibility import CompatibilityLevel, CompatibilityPolicy
from headrace.schema.schema import SchemaText, SchemaType


def test_a_comparison_past_the_limits_is_refused_as_an_invalid_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit, "MAX_COMPARISONS", 0)
    checker = SchemaChecker()
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    first = SchemaSource(SchemaText(SchemaType.AVRO, text), {})
    second = SchemaSource(SchemaText(SchemaType.AVRO, text.replace('"int"', '"long"')), {})

    with pytest.raises(RegistryError, match="cannot be compared") as refusal:
        checker.check(CompatibilityLevel.BACKWARD, CompatibilityPolicy.STRICT, second, [first])

    assert refusal.value.code == 42201
