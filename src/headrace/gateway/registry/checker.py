"""Parses schemas with their references and compares them; remembers what it has done.

Rule 1: parsing and comparing is work for a processor, up to some hundred milliseconds for a large
schema. It runs in threads, never under the lock of the state.
Rule 2: what is remembered is found by the text of everything that went into it, so it is never
out of date. Two threads may do the same work at once; they get the same result.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.gateway.registry.error import invalid_schema
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.state.subject_name import SubjectName
from headrace.schema.compatibility import CompatibilityLevel, CompatibilityPolicy, check
from headrace.schema.error import InvalidSchema
from headrace.schema.incompatibility import Incompatibility
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import Reference, SchemaText, SchemaType

T = TypeVar("T")

_KEPT_SCHEMAS: Final = 1000
_KEPT_CHARACTERS: Final = 32 << 20
_KEPT_VERDICTS: Final = 5000
_KEPT_FORMS: Final = 50_000
_MOST_REFERENCES: Final = 1000
_RESERVED: Final = "confluent:reserved"
LATEST: Final = -1


class SchemaChecker:
    """Parses and compares. Threads: any."""

    def __init__(self) -> None:
        self._schemas = _Memory(_KEPT_SCHEMAS, _KEPT_CHARACTERS)
        self._verdicts = _Memory(_KEPT_VERDICTS, _KEPT_CHARACTERS)
        self._forms = _Memory(_KEPT_FORMS, _KEPT_FORMS)

    def parse(self, text: SchemaText, resolved: Mapping[str, str]) -> ParsedSchema:
        """Parse a schema whose references are resolved.

        Raises:
            RegistryError: 42201.
        """
        key = (text, tuple(sorted(resolved.items())))
        size = len(text.text) + sum(map(len, resolved.values()))

        def work() -> ParsedSchema:
            try:
                return parse(text, resolved)
            except (InvalidSchema, RecursionError) as error:
                raise invalid_schema(
                    f"Invalid schema of type {text.type.value}, details: {error}"
                ) from error

        return self._schemas.get(key, size, work)

    def check(
        self,
        level: CompatibilityLevel,
        policy: CompatibilityPolicy,
        new: ParsedSchema,
        earlier: Sequence[ParsedSchema],
    ) -> list[Incompatibility]:
        """Return what stands against a schema; empty if it fits to the earlier ones.

        Raises:
            RegistryError: 42201, the schemas are too large or nested too deep to be compared.
        """
        key = (level, policy, id(new), tuple(map(id, earlier)))
        size = sum(len(each.text.text) for each in (new, *earlier))

        # The schemas are part of what is kept: their ids stay theirs as long as the key is there.
        def work() -> tuple[list[Incompatibility], ParsedSchema, tuple[ParsedSchema, ...]]:
            try:
                return check(level, new, earlier, policy), new, tuple(earlier)
            except InvalidSchema as error:
                raise invalid_schema(
                    f"The schema cannot be compared with earlier ones, details: {error}"
                ) from error

        return self._verdicts.get(key, size, work)[0]

    def forms(self, guid: str, kind: SchemaType, parsed: Callable[[], ParsedSchema]) -> "Forms":
        """Return what a registered schema is compared by, and remember that for very many."""
        return self._forms.get((guid, kind), 1, lambda: Forms.of(parsed()))


@dataclass(frozen=True, slots=True)
class Forms:
    """Digests of the canonical and the normalised text of a schema, each with its references."""

    canonical: tuple[bytes, tuple[Reference, ...]]
    normalized: tuple[bytes, tuple[Reference, ...]]

    @classmethod
    def of(cls, parsed: ParsedSchema) -> "Forms":
        return cls(
            (text_digest(parsed.canonical), parsed.references),
            (text_digest(parsed.normalized), parsed.normalized_references),
        )


def text_digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class _Memory:
    """The results of the last calls, bounded in number and size."""

    def __init__(self, most: int, most_size: int) -> None:
        self._most = most
        self._most_size = most_size
        self._size = 0
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, size: int, work: Callable[[], T]) -> T:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]  # type: ignore[return-value]
        result = work()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (result, size)
                self._size += size
            while len(self._kept) > 1 and (
                len(self._kept) > self._most or self._size > self._most_size
            ):
                self._size -= self._kept.popitem(last=False)[1][1]
        return result


def schema_text(
    kind: SchemaType,
    text: str,
    references: tuple[Reference, ...],
    metadata: Mapping[str, object] | None,
) -> SchemaText:
    """Return what is parsed: with the field names that the metadata reserves."""
    properties = (metadata or {}).get("properties") or {}
    reserved = properties.get(_RESERVED, "") if isinstance(properties, dict) else ""
    names = frozenset(each.strip() for each in str(reserved).split(",") if each.strip())
    return SchemaText(kind, text, references, names)


def resolve_references(
    state: RegistryState,
    subject: str,
    references: Sequence[Reference],
    *,
    deleted: bool = False,
) -> dict[str, str]:
    """Return the texts of references, and of the references of those, by their names.

    Args:
        deleted: whether a deleted version will do: it does for a schema that is registered already.

    Raises:
        RegistryError: 42201, a reference leads nowhere.
    """
    found: dict[str, str] = {}
    waiting = [(SubjectName.of(subject), each) for each in reversed(references)]
    while waiting:
        parent, reference = waiting.pop()
        if reference.name in found:
            continue
        if len(found) >= _MOST_REFERENCES:
            raise invalid_schema(f"The schema refers to more than {_MOST_REFERENCES} others.")
        schema = find_reference(state, parent, reference, deleted=deleted)
        found[reference.name] = schema.text
        name = SubjectName.of(schema.subject)
        waiting += [(name, each) for each in reversed(schema.references)]
    return found


def find_reference(
    state: RegistryState, parent: SubjectName, reference: Reference, *, deleted: bool
) -> StoredSchema:
    """Return the version that a reference names.

    Raises:
        RegistryError: 42201.
    """
    target = parent.sibling(reference.subject).text
    if reference.version == LATEST:
        schema = state.latest(target)
    else:
        schema = state.version(target, reference.version)
    if schema is None or (schema.deleted and not deleted):
        raise invalid_schema(
            f'No schema reference found for subject "{target}" and version {reference.version}'
        )
    return schema
