"""A table of evolutions: what a user of Confluent's registry expects of each."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.schema.compatibility import CompatibilityLevel, check
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaText, SchemaType


@dataclass(frozen=True)
class Case:
    """An old and a new schema, and what BACKWARD and FORWARD object to (nothing: compatible).

    Objections are the types of incompatibilities, each once, separated by spaces.
    """

    name: str
    old: str
    new: str
    backward: str = ""
    forward: str = ""

    def __str__(self) -> str:
        return self.name


def read(kind: SchemaType, text: str, resolved: dict[str, str] | None = None) -> ParsedSchema:
    return parse(SchemaText(kind, text), resolved)


def objections(level: CompatibilityLevel, new: ParsedSchema, old: ParsedSchema) -> set[str]:
    return {each.type for each in check(level, new, [old])}


def verify(case: Case, read_text: Callable[[str], ParsedSchema]) -> None:
    """Assert both verdicts, and that every objection says something."""
    old, new = read_text(case.old), read_text(case.new)
    assert objections(CompatibilityLevel.BACKWARD, new, old) == set(case.backward.split())
    assert objections(CompatibilityLevel.FORWARD, new, old) == set(case.forward.split())
    both = set(case.backward.split()) | set(case.forward.split())
    assert objections(CompatibilityLevel.FULL, new, old) == both
    for each in check(CompatibilityLevel.FULL, new, [old]):
        assert len(each.message) > 20
        assert each.path.startswith(("/", "#/"))
        assert each.type in str(each)
