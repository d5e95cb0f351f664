"""A validator of JSON Schema whose time is bounded.

jsonschema matches with Python's `re`, where one short expression and forty letters can take days,
and no other thread runs meanwhile. Both come from strangers here, so RE2 matches instead. And some
references that each use another one twice are a tree of any size, so references are counted.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final

from headrace.schema.json_schema.pattern import PatternTable
from headrace.serde.error import Unencodable

_MOST_REFERENCES: Final = 20_000
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class LinearValidator:
    """Checks values by one schema. Threads: any.

    Args:
        base: jsonschema's class of validators for the schema's draft.
        registry: finds what the schema refers to.
    """

    def __init__(self, base: Any, schema: Any, registry: Any) -> None:
        from jsonschema.validators import extend

        self._base = base
        self._patterns = PatternTable()
        self._used = threading.local()
        changed = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "unevaluatedProperties": self._unevaluated_properties,
            **{name: self._counted(base.VALIDATORS.get(name)) for name in _REFERENCES},
        }
        known = {name: each for name, each in changed.items() if name in base.VALIDATORS}
        self._validator = extend(base, known)(schema, registry=registry)

    def problem(self, value: Any) -> Any:
        """Return the first thing that is wrong with a value; None if it fits.

        Raises:
            Unencodable: the schema cannot be applied in bounded time.
        """
        self._used.references = 0
        return next(self._validator.iter_errors(value), None)

    def _counted(self, keyword: Any) -> Any:
        def reference(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._used.references += 1
            if self._used.references > _MOST_REFERENCES:
                raise Unencodable("its JSON Schema refers to itself too often to be checked")
            yield from keyword(validator, target, instance, schema) or ()

        return reference

    def _pattern(self, validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not self._found(pattern, instance):
            yield _error(f"{instance[:100]!r} does not match {pattern[:100]!r}")

    def _pattern_properties(
        self, validator: Any, patterns: dict[str, Any], instance: Any, _: Any
    ) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, subschema in patterns.items():
            for name, value in instance.items():
                if self._found(pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)

    def _additional_properties(
        self, validator: Any, rule: Any, instance: Any, schema: Any
    ) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        patterns = schema.get("patternProperties", {})
        others = [
            name
            for name in instance
            if name not in schema.get("properties", {})
            and not any(self._found(each, name) for each in patterns)
        ]
        if validator.is_type(rule, "object"):
            for name in others:
                yield from validator.descend(instance[name], rule, path=name)
        elif not rule and others:
            yield _error(f"the properties {others[:5]} are not in the schema")

    def _unevaluated_properties(
        self, validator: Any, rule: Any, instance: Any, schema: Any
    ) -> Iterator[Any]:
        if _has_patterns(schema):
            raise Unencodable("unevaluatedProperties beside patternProperties cannot be checked")
        keyword = self._base.VALIDATORS["unevaluatedProperties"]
        yield from keyword(validator, rule, instance, schema) or ()

    def _found(self, pattern: str, text: str) -> bool:
        if not self._patterns.is_known(pattern):
            raise Unencodable(
                f"the regular expression {pattern[:60]!r} is not matched here: it looks around or "
                "back (RE2's syntax is known)"
            )
        return self._patterns.matches(pattern, text)


def _error(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _has_patterns(schema: Any) -> bool:
    """Return whether patternProperties may be anywhere inside, where jsonschema matches them."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "patternProperties" in each or any(name in each for name in _REFERENCES):
                return True
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return False
