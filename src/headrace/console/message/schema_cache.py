"""Finds the schemas that values name, without making a page wait for a slow registry.

Rule 1: a lookup runs in a thread of its own. A page waits for it no longer than its patience
        allows, and shows the value as bytes after that; the schema is there when it is asked again.
Rule 2: what the registry refused is not asked for again for a while, and nothing is asked for a
        few seconds after it could not be reached.
Rule 3: at most a few lookups run at once, and as many schemas are kept as a console needs.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any, Final, TypeGuard

from headrace.schema.schema import SchemaType
from headrace.serde.codec.codec import Codec
from headrace.serde.codec.codec_factory import codec_of
from headrace.serde.deserializer import payload_of
from headrace.serde.error import RegistryError, RegistryUnreachable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.wire_format import Framing

_MOST_KEPT: Final = 300
_MOST_AT_ONCE: Final = 4
_MOST_PLACES: Final = 1_000
_FOUND_SECONDS: Final = 300.0
_REFUSED_SECONDS: Final = 30.0
_UNREACHABLE_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 1.0
_PATIENCE_EVERY_SECONDS: Final = 10.0
_NO_SCHEMA: Final = 40403
_SLOW: Final = "the schema registry has not answered yet: look again in a moment"

Now = Callable[[], float]


@dataclass(frozen=True, slots=True)
class FoundSchema:
    """A schema, what reads its values, and the subjects that have it.

    Attributes:
        places: subject and version, sorted.
    """

    schema: RegisteredSchema
    codec: Codec
    places: tuple[tuple[str, int], ...]

    def place(self, topic: str, part: str) -> tuple[str, int] | None:
        """Return the subject and version to show: those of a topic's `part` if it is there."""
        named = [each for each in self.places if each[0] == f"{topic}-{part}"]
        if named:
            return named[-1]
        return self.places[0] if self.places else None

    def decode(self, data: bytes, framing: Framing) -> Any:
        """Return what a value says.

        Raises:
            Undecodable: it is not of this schema.
        """
        payload, indexes = payload_of(data, framing, self.schema.type)
        return self.codec.decode(payload, indexes)

    @property
    def kind(self) -> str:
        return "json" if self.schema.type is SchemaType.JSON else self.schema.type.value.lower()


@dataclass(frozen=True, slots=True)
class NoSchema:
    """Why there is none.

    Attributes:
        unknown: the registry says that there is no such schema.
    """

    reason: str
    unknown: bool = False


class Patience:
    """How long one page may still wait for the registry: at most one second in every ten."""

    def __init__(self, now: Now = time.monotonic) -> None:
        self._now = now
        self._since = now()
        self._left = _PATIENCE_SECONDS

    def wait(self, event: Event) -> bool:
        """Wait for an event as long as may be, and return whether it came."""
        begin = self._now()
        if begin - self._since > _PATIENCE_EVERY_SECONDS:
            self._since, self._left = begin, _PATIENCE_SECONDS
        came = event.wait(max(self._left, 0.0))
        self._left -= self._now() - begin
        return came


@dataclass(slots=True)
class _Entry:
    """A lookup that runs, or what became of it."""

    done: Event = field(default_factory=Event)
    found: FoundSchema | NoSchema | None = None
    until: float = 0.0


class SchemaCache:
    """Keeps what the registry said.

    Threads: any.
    """

    def __init__(self, registry: RegistryClient, now: Now = time.monotonic) -> None:
        self._registry = registry
        self._now = now
        self._lock = Lock()
        self._entries: OrderedDict[int | str, _Entry] = OrderedDict()
        self._running = 0
        self._unreachable: NoSchema | None = None
        self._unreachable_until = 0.0

    def find(self, framing: Framing, patience: Patience) -> FoundSchema | NoSchema:
        """Return the schema that a value names, or why there is none yet."""
        key = framing.id if framing.id is not None else framing.guid
        assert key is not None
        if key == 0:  # the first bytes of a small number
            return NoSchema("there is no schema with id 0", unknown=True)
        entry = self._entry(key)
        if isinstance(entry, NoSchema):
            return entry
        # What was found before is good enough while it is asked for again.
        if entry.found is None:
            patience.wait(entry.done)
        return entry.found or NoSchema(_SLOW)

    def _entry(self, key: int | str) -> _Entry | NoSchema:
        """Return what is known, after starting to look if that is nothing, or too old."""
        with self._lock:
            now = self._now()
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                if not entry.done.is_set() or now < entry.until:
                    return entry
            if self._unreachable is not None and now < self._unreachable_until:
                return entry if _holds(entry) else self._unreachable
            if self._running >= _MOST_AT_ONCE:
                return entry if _holds(entry) else NoSchema(_SLOW)
            if entry is None or not _holds(entry):
                entry = self._entries[key] = _Entry()
                if len(self._entries) > _MOST_KEPT:
                    self._entries.popitem(last=False)
            else:
                entry.done.clear()
            self._running += 1
        Thread(target=self._look, args=(key, entry), name="schema-lookup", daemon=True).start()
        return entry

    def _look(self, key: int | str, entry: _Entry) -> None:
        found: FoundSchema | NoSchema
        seconds = _REFUSED_SECONDS
        unreachable = None
        try:
            found, seconds = self._ask(key), _FOUND_SECONDS
        except RegistryUnreachable as error:
            found = unreachable = NoSchema(str(error))
            seconds = _UNREACHABLE_SECONDS
        except RegistryError as error:
            found = NoSchema(str(error), unknown=error.code == _NO_SCHEMA)
        except Exception as error:  # noqa: BLE001  # libraries raise any exception on hostile schemas
            found = NoSchema(f"its schema cannot be used: {error}"[:500])
        with self._lock:
            self._running -= 1
            now = self._now()
            if unreachable is not None:
                self._unreachable, self._unreachable_until = unreachable, now + seconds
            if isinstance(found, FoundSchema) or not _holds(entry):
                entry.found = found
            entry.until = now + seconds
            entry.done.set()

    def _ask(self, key: int | str) -> FoundSchema:
        if isinstance(key, str):
            schema = self._registry.schema_of_guid(key)
        else:
            schema = self._registry.schema(key)
        codec = codec_of(schema.parsed)
        return FoundSchema(schema, codec, self._places(schema))

    def _places(self, schema: RegisteredSchema) -> tuple[tuple[str, int], ...]:
        """Return the subjects that have a schema; none if the registry does not say."""
        if schema.id < 0:
            return ()
        try:
            answer = self._registry.ask("GET", f"/schemas/ids/{schema.id}/versions")
            places = [(str(each["subject"]), int(each["version"])) for each in answer]
        except (RegistryError, RegistryUnreachable, KeyError, TypeError, ValueError):
            return ()
        return tuple(sorted(places)[:_MOST_PLACES])


def _holds(entry: _Entry | None) -> TypeGuard[_Entry]:
    return entry is not None and isinstance(entry.found, FoundSchema)
