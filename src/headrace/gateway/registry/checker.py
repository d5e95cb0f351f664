"""Parses schemas with their references and compares them; remembers what it has done.

Rule 1: parsing and comparing is work for a processor, up to some hundred milliseconds for a large
schema. It runs in threads, never under the lock of the state.
Rule 2: what is remembered is found by the text of everything that went into it, so it is never
out of date. Two threads may do the same work at once; they get the same result.
Rule 3: few threads compute at once (`WorkGate`), and what one request may cost is bounded
(`WorkBudget`): a schema within the limits may still take a second, and a subject has many versions.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final, Generic, TypeVar

from headrace.gateway.registry.error import invalid_schema
from headrace.gateway.registry.heavy_work import WorkBudget, WorkGate
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.state.subject_name import SubjectName
from headrace.schema import limit
from headrace.schema.compatibility import CompatibilityLevel, CompatibilityPolicy, check
from headrace.schema.error import InvalidSchema
from headrace.schema.incompatibility import Incompatibility
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import Reference, SchemaText, SchemaType
from headrace.schema.tag import Entity, TagChange

T = TypeVar("T")

_KEPT_SCHEMAS: Final = 1000
_KEPT_CHARACTERS: Final = 8 << 20
"""Of parsed texts. A tree takes some thirty times the memory of its text."""

_KEPT_VERDICTS: Final = 20_000
_KEPT_REASON_CHARACTERS: Final = 8 << 20
_KEPT_FORMS: Final = 50_000
_MOST_REFERENCES: Final = 1000
_MOST_REFERENCE_STEPS: Final = 20_000
_MOST_REASONS: Final = 200
_SHOWN_CHARACTERS: Final = 1000
_REQUEST_CHARACTERS: Final = 4 << 20
"""What a request may cause to be parsed, besides a first schema: some two seconds of a core."""

_CHARACTERS_PER_STEP: Final = 4
"""Comparing two types takes as long as parsing so many characters."""

_HASHED_PER_CHARACTER: Final = 100
_CHARACTERS_PER_REFERENCE: Final = 20
"""Resolving a reference takes as long as parsing so many characters."""

_RESERVED: Final = "confluent:reserved"
LATEST: Final = -1


class SchemaChecker:
    """Parses and compares. Threads: any, but each request has a checker of its own (`for_request`),
    which shares what is remembered, and the room for heavy work, with all others.
    """

    def __init__(self, shared: "_Shared | None" = None) -> None:
        self._shared = shared or _Shared()
        self._budget = WorkBudget(_REQUEST_CHARACTERS)

    def for_request(self) -> "SchemaChecker":
        """Return a checker that may do as much as one request may cost."""
        return SchemaChecker(self._shared)

    def parse(self, source: "SchemaSource") -> ParsedSchema:
        """Parse a schema whose references are resolved.

        Raises:
            RegistryError: 42201, 50002.
        """
        text, resolved, size = source.text, source.resolved, source.characters

        def work() -> tuple[ParsedSchema, int]:
            self._budget.spend(size)
            try:
                with self._shared.gate.enter():
                    return parse(text, resolved), size
            except (InvalidSchema, RecursionError) as error:
                raise invalid_schema(
                    f"Invalid schema of type {text.type.value}, details: {_shown(error)}"
                ) from error

        return self._shared.schemas.get(source.digest, work)

    def check(
        self,
        level: CompatibilityLevel,
        policy: CompatibilityPolicy,
        new: "SchemaSource",
        earlier: Sequence[Callable[[], "SchemaSource"]],
    ) -> list[Incompatibility]:
        """Return what stands against a schema; empty if it fits to the earlier ones.

        The newest of them comes first, and only so many reasons are gathered as an answer shows.

        Args:
            earlier: each is called when its turn comes, for resolving references takes time, too.

        Raises:
            RegistryError: 42201, the schemas are too large or nested too deep to be compared;
                50002, there are too many of them for one request.
        """
        found: list[Incompatibility] = []
        first = 0 if level.is_transitive else max(len(earlier) - 1, 0)
        for index in range(len(earlier) - 1, first - 1, -1):
            self._budget.spend(0)
            source = earlier[index]()
            self._budget.spend_last(source.lookup_cost)
            reasons = self._check_pair(level, policy, new, source)
            found += [replace(each, earlier=index) for each in reasons]
            if len(found) > _MOST_REASONS:
                break
        return found

    def _check_pair(
        self,
        level: CompatibilityLevel,
        policy: CompatibilityPolicy,
        new: "SchemaSource",
        earlier: "SchemaSource",
    ) -> list[Incompatibility]:
        def work() -> tuple[list[Incompatibility], int]:
            schemas = self.parse(new), self.parse(earlier)
            steps = limit.comparison_limit()
            self._budget.spend(0)
            try:
                with self._shared.gate.enter():
                    reasons = check(level, schemas[0], [schemas[1]], policy, steps)
            except InvalidSchema as error:
                raise invalid_schema(
                    f"The schema cannot be compared with earlier ones, details: {_shown(error)}"
                ) from error
            finally:
                self._budget.spend_last(steps.spent * _CHARACTERS_PER_STEP)
            return reasons, 200 + sum(len(each.message) + len(each.path) for each in reasons)

        key = (level, policy, new.digest, earlier.digest)
        return self._shared.verdicts.get(key, work)

    def normalized(self, parsed: ParsedSchema) -> str:
        """Return the normalised text of a schema."""
        with self._shared.gate.enter():
            return parsed.normalized

    def formatted(self, parsed: ParsedSchema, form: str) -> str:
        """Return the text of a schema in a format.

        Raises:
            RegistryError: 42201, its type has no such format.
        """
        try:
            with self._shared.gate.enter():
                return parsed.formatted(form)
        except InvalidSchema as error:
            raise invalid_schema(_shown(error)) from error

    def with_tags(self, parsed: ParsedSchema, change: TagChange) -> str:
        """Return the text of a schema with tags changed.

        Raises:
            RegistryError: 42201, it does not have what is to be tagged.
        """
        try:
            with self._shared.gate.enter():
                return parsed.with_tags(change)
        except (InvalidSchema, RecursionError) as error:
            raise invalid_schema(_shown(error)) from error

    def tags(self, parsed: ParsedSchema) -> dict[Entity, tuple[str, ...]]:
        """Return what is tagged in a schema.

        Raises:
            RegistryError: 42201, too much is.
        """
        try:
            with self._shared.gate.enter():
                return parsed.tags()
        except InvalidSchema as error:
            raise invalid_schema(_shown(error)) from error

    def forms(self, guid: str, kind: SchemaType, parsed: Callable[[], ParsedSchema]) -> "Forms":
        """Return what a registered schema is compared by, and remember that for very many.

        Raises:
            RegistryError: 42201, 50002.
        """

        def work() -> tuple[Forms, int]:
            schema = parsed()
            with self._shared.gate.enter():
                return Forms.of(schema), 1

        return self._shared.forms.get((guid, kind), work)


@dataclass(frozen=True)
class SchemaSource:
    """All that a schema is parsed from: its text, and those of its references by their names."""

    text: SchemaText
    resolved: Mapping[str, str]

    @property
    def characters(self) -> int:
        return len(self.text.text) + sum(map(len, self.resolved.values()))

    @property
    def lookup_cost(self) -> int:
        """What resolving and hashing cost, in characters that could be parsed meanwhile."""
        hashing = self.characters // _HASHED_PER_CHARACTER
        return hashing + len(self.resolved) * _CHARACTERS_PER_REFERENCE

    @cached_property
    def digest(self) -> bytes:
        """A name for the whole: equal sources have the same."""
        text = self.text
        head = (text.type.value, text.references, sorted(text.reserved))
        digest = hashlib.sha256(repr(head).encode())
        for each in (text.text, *chain(*sorted(self.resolved.items()))):
            digest.update(b"%d:" % len(each) + each.encode("utf-8", "surrogatepass"))
        return digest.digest()


def _shown(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


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


class _Memory(Generic[T]):
    """The results of the last calls, bounded in number and size."""

    def __init__(self, most: int, most_size: int) -> None:
        self._most = most
        self._most_size = most_size
        self._size = 0
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, work: Callable[[], tuple[T, int]]) -> T:
        """Return what is remembered, or else what `work` returns, which comes with its size."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[0]
        result, size = work()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (result, size)
                self._size += size
            while len(self._kept) > 1 and (
                len(self._kept) > self._most or self._size > self._most_size
            ):
                self._size -= self._kept.popitem(last=False)[1][1]
        return result


class _Shared:
    """What the checkers of all requests share."""

    def __init__(self) -> None:
        self.gate = WorkGate()
        self.schemas: _Memory[ParsedSchema] = _Memory(_KEPT_SCHEMAS, _KEPT_CHARACTERS)
        self.verdicts: _Memory[list[Incompatibility]] = _Memory(
            _KEPT_VERDICTS, _KEPT_REASON_CHARACTERS
        )
        self.forms: _Memory[Forms] = _Memory(_KEPT_FORMS, _KEPT_FORMS)


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
        RegistryError: 42201, a reference leads nowhere, or they are too many or too large.
    """
    found: dict[str, str] = {}
    characters = 0
    waiting = [(SubjectName.of(subject), each) for each in reversed(references)]
    steps = 0
    while waiting:
        parent, reference = waiting.pop()
        steps += 1
        if steps + len(waiting) > _MOST_REFERENCE_STEPS:  # a thousand may refer to a thousand each
            raise invalid_schema(
                f"The references of the schema and of those that it refers to are more than "
                f"{_MOST_REFERENCE_STEPS} together."
            )
        if reference.name in found:
            continue
        if len(found) >= _MOST_REFERENCES:
            raise invalid_schema(f"The schema refers to more than {_MOST_REFERENCES} others.")
        schema = find_reference(state, parent, reference, deleted=deleted)
        found[reference.name] = schema.text
        characters += len(schema.text)
        if characters > limit.MAX_TOTAL_CHARACTERS:
            raise invalid_schema(
                f"The references of the schema have more than {limit.MAX_TOTAL_CHARACTERS} "
                "characters together."
            )
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
