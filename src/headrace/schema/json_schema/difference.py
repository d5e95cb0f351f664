"""A change that breaks a reader, named as Confluent's registry names it.

Only breaking changes are written down: two schemas without a difference are compatible. A change
that widens what is accepted (a longer maxLength, a property that is no longer required) is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.schema.limit import MAX_REASONS

# Changes that the LENIENT policy allows besides.
LENIENT: Final = frozenset(
    [
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ]
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A breaking change and the steps to it from the schema that was compared."""

    type: str
    path: tuple[str, ...] = ()


Differences = list[Difference]


def under(step: str, differences: Iterable[Difference]) -> Differences:
    """Return differences of an inner schema as differences of the outer one."""
    return [Difference(each.type, (step, *each.path)) for each in differences][:MAX_REASONS]
