"""What operations compute with: the state, read in short steps, and parsed schemas."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from headrace.gateway.registry.checker import (
    Forms,
    SchemaChecker,
    SchemaSource,
    resolve_references,
    schema_text,
)
from headrace.gateway.registry.state.record import Record
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.schema.parsed import ParsedSchema

T = TypeVar("T")


class StateReader(Protocol):
    """Calls a function with the state, which does not change meanwhile. It must not take long."""

    def __call__(self, step: Callable[[RegistryState], T], /) -> T: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What a write comes to: records to append, and the answer once they are there."""

    answer: Any
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RegistryView:
    """The state and the checker.

    Attributes:
        about: what the registry tells of itself: the ids of its cluster and group, its version.
    """

    read: StateReader
    checker: SchemaChecker
    about: Mapping[str, str] = field(default_factory=dict)

    def for_request(self) -> "RegistryView":
        """Return a view with what one request may cost."""
        return replace(self, checker=self.checker.for_request())

    def parsed(self, schema: StoredSchema) -> ParsedSchema:
        """Parse a registered schema.

        Raises:
            RegistryError: 42201, another registry has taken what is no schema here.
        """
        return self.checker.parse(self.source(schema))

    def source(self, schema: StoredSchema) -> SchemaSource:
        """Return what a registered schema is parsed from.

        Raises:
            RegistryError: 42201, a reference leads nowhere.
        """
        resolved = self.read(
            lambda state: resolve_references(state, schema.subject, schema.references, deleted=True)
        )
        text = schema_text(schema.type, schema.text, schema.references, schema.metadata)
        return SchemaSource(text, resolved)

    def forms(self, schema: StoredSchema) -> Forms:
        """Return what a registered schema is compared by.

        Raises:
            RegistryError: 42201, as `parsed`.
        """
        return self.checker.forms(schema.guid, schema.type, lambda: self.parsed(schema))
