"""Whether a new schema fits to earlier ones, by the levels of Confluent's registry.

BACKWARD: a reader with the new schema reads what was written with the earlier one. FORWARD: a
reader with the earlier schema reads what is written with the new one. FULL: both. The plain levels
look at the last earlier schema only, the transitive ones at all of them. NONE allows everything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import islice
from typing import Final

from headrace.schema.avro.parsed import AvroSchema
from headrace.schema.avro.verdict import avro_reasons
from headrace.schema.error import InvalidSchema
from headrace.schema.incompatibility import Incompatibility, Roles
from headrace.schema.json_schema.parsed import JsonSchema
from headrace.schema.json_schema.verdict import json_reasons
from headrace.schema.limit import MAX_REASONS, WorkLimit, comparison_limit
from headrace.schema.parsed import ParsedSchema
from headrace.schema.protobuf.parsed import ProtobufSchema
from headrace.schema.protobuf.verdict import protobuf_reasons


class CompatibilityLevel(StrEnum):
    """The levels, by the names that the registry's `compatibility` has."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class CompatibilityPolicy(StrEnum):
    """How JSON Schema's open content models are judged (`compatibilityPolicy`; no other type's).

    STRICT: a property may not be added to an open content model, since earlier records may hold
    anything under its name. LENIENT: an optional one may, as people mostly mean it.
    """

    STRICT = "STRICT"
    LENIENT = "LENIENT"


_BACKWARD: Final = Roles(reader="new", writer="earlier")
_FORWARD: Final = Roles(reader="earlier", writer="new")


def check(
    level: CompatibilityLevel,
    new: ParsedSchema,
    earlier: Sequence[ParsedSchema],
    policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
    limit: WorkLimit | None = None,
) -> list[Incompatibility]:
    """Return why `new` does not fit to the earlier schemas (oldest first); empty if it does.

    Args:
        limit: what all comparisons together may cost; without it each one may cost
            MAX_COMPARISONS steps.

    Raises:
        InvalidSchema: the two are too large or nested too deep to be compared.
    """
    if level is CompatibilityLevel.NONE:
        return []
    found: list[Incompatibility] = []
    first = 0 if level.is_transitive else max(len(earlier) - 1, 0)
    # The newest first: it is what the user changed, and its reasons are what the user looks for.
    for index in range(len(earlier) - 1, first - 1, -1):
        reasons: list[Incompatibility] = []
        if level.is_backward:
            reasons += _reasons(new, earlier[index], _BACKWARD, policy, limit)
        if level.is_forward:
            reasons += _reasons(earlier[index], new, _FORWARD, policy, limit)
        found += [replace(reason, earlier=index) for reason in reasons]
    return found


def _reasons(
    reader: ParsedSchema,
    writer: ParsedSchema,
    roles: Roles,
    policy: CompatibilityPolicy,
    limit: WorkLimit | None,
) -> list[Incompatibility]:
    steps = limit or comparison_limit()
    lenient = policy is CompatibilityPolicy.LENIENT
    try:
        match reader, writer:
            case AvroSchema(), AvroSchema():
                return _first(avro_reasons(reader, writer, roles, steps))
            case JsonSchema(), JsonSchema():
                return _first(json_reasons(reader, writer, roles, lenient, steps))
            case ProtobufSchema(), ProtobufSchema():
                return _first(protobuf_reasons(reader, writer, roles, steps))
    except RecursionError:
        raise InvalidSchema("the schemas are nested too deep to be compared") from None
    return [
        Incompatibility(
            "SCHEMA_TYPE_CHANGED",
            "/",
            f"the {roles.reader} schema is {reader.type.value} and the {roles.writer} is"
            f" {writer.type.value}; register it under another subject",
        )
    ]


def _first(reasons: Iterable[Incompatibility]) -> list[Incompatibility]:
    """Return as many reasons as a verdict names."""
    return list(islice(reasons, MAX_REASONS))
