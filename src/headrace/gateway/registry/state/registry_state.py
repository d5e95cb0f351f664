"""All subjects, versions, ids, configurations and modes: what the records so far add up to.

Theory of operation. `apply` takes the records of the topic in the order of their offsets; every
instance applies the same ones and so has the same state. Everything else reads. Nothing is ever
changed but by a record.

Rule 1: an id names one schema per context as long as a version has it, softly deleted ones
included. A record that gives such an id to another schema is passed over, as Confluent's registry
does. An id whose versions were all deleted for good is not given again: what deletes them writes
down the highest id, for the records that had it are gone once the topic is compacted.
Rule 2: an instance that takes the lead writes a claim, with a number above all before it. Records
that an earlier leader wrote under its claim, and that lie after the next claim in the topic, came
too late, and so does a claim whose number is taken: they are passed over, and records are kept in
`late`, until the leader has written what holds under their keys. So a leader that lost
touch for a while cannot undo or double what its successor did. Records of other registries have no
claim and always count.
Rule 3: a record that cannot be read changes nothing: it is checked whole before the first change,
and whatever is wrong with it is its own matter, for one that stopped the reader would stop every
instance for ever.

Usage::

    state = RegistryState()
    outcome = state.apply(LogRecord(offset=0, key=b'{"keytype":...', value=b"..."))
    state.latest("orders-value")
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

import structlog

from headrace.gateway.registry.state.record import (
    HIGHEST_IDS_KEY,
    KeyType,
    Record,
    RecordKey,
    context_record,
    highest_ids_record,
    read_highest_ids,
    read_kept_claim,
    read_key,
    read_number,
    read_schema,
    read_value,
    schema_record,
    schema_tombstone,
)
from headrace.gateway.registry.state.stored_schema import Json, StoredSchema
from headrace.gateway.registry.state.subject_name import DEFAULT_CONTEXT, SubjectName, is_below

log = structlog.get_logger()

MOST_LATE = 10_000
NO_CLAIM = -1


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the topic.

    Attributes:
        claim: the number of the claim under which it was written, or its own if it is one; None if
            it names none. Numbers are not offsets: a copy of the topic has others.
        is_claim: whether it is one itself.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    ts: int | None = None
    claim: int | None = None
    is_claim: bool = False


class Outcome(Enum):
    """What became of a record."""

    APPLIED = auto()
    LATE = auto()
    """Its writer was not the leader any more."""

    DUPLICATE_ID = auto()
    UNKNOWN_TYPE = auto()
    """Another registry wrote it, about something that this one does not have, such as a key."""

    UNREADABLE = auto()
    """It is damaged."""


class RegistryState:
    """The state. For one thread at a time."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, StoredSchema]] = {}
        self._ids: dict[str, dict[int, dict[tuple[str, int], None]]] = {}
        self._guids: dict[str, dict[str, int]] = {}
        self._max_ids: dict[str, int] = {}
        self._kept_ids: dict[str, int] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._contexts: set[str] = set()
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, str] = {}
        self.associations: dict[RecordKey, Json] = {}
        self.claim = NO_CLAIM
        self.highest_claim = NO_CLAIM
        self._kept_claim = NO_CLAIM
        self.late: dict[RecordKey, None] = {}

    # -- applying records

    def apply(self, record: LogRecord) -> Outcome:
        """Apply the next record of the topic."""
        number = NO_CLAIM if record.claim is None else record.claim
        self.highest_claim = max(self.highest_claim, number)
        if record.is_claim:
            if number <= self.claim:
                return Outcome.LATE
            self.claim = number
            return Outcome.APPLIED
        if record.key is None:
            return Outcome.UNREADABLE
        try:
            key = read_key(record.key)
            if key is None:
                return Outcome.UNKNOWN_TYPE
            if record.claim is not None and record.claim < self.claim:
                if len(self.late) < MOST_LATE:
                    self.late[key] = None
                return Outcome.LATE
            outcome = self._apply(key, read_value(record.value), record.ts)
        except Exception as error:  # noqa: BLE001 - anyone who may write to the topic wrote it
            log.warning("registry_record_unreadable", offset=record.offset, error=repr(error)[:200])
            return Outcome.UNREADABLE
        self.late.pop(key, None)
        return outcome

    def _apply(self, key: RecordKey, value: Json | None, ts: int | None) -> Outcome:
        match key.type:
            case KeyType.SCHEMA:
                return self._apply_schema(key, value, ts)
            case KeyType.CONFIG:
                self._apply_config(key.subject, value)
            case KeyType.MODE:
                self._apply_mode(key.subject, value)
            case KeyType.DELETE_SUBJECT if value is not None:
                self._delete_versions(key.subject or "", read_number(value, "version"))
            case KeyType.CLEAR_SUBJECT if value is not None:
                self._clear(key.subject)
            case KeyType.CONTEXT if value is None:
                self._contexts.discard(key.context)
            case KeyType.CONTEXT:
                self._contexts.add(key.context)
            case KeyType.ASSOCIATION if value is None:
                self.associations.pop(key, None)
            case KeyType.ASSOCIATION:
                self.associations[key] = value or {}
            case KeyType.NOOP if key == HIGHEST_IDS_KEY and value is not None:
                self._apply_kept(read_highest_ids(value), read_kept_claim(value))
        return Outcome.APPLIED

    def _apply_schema(self, key: RecordKey, value: Json | None, ts: int | None) -> Outcome:
        subject = key.subject or ""
        if value is None:
            self._forget(subject, key.version)
            return Outcome.APPLIED
        schema = read_schema(key, value, ts)
        context = SubjectName.of(subject).context
        for known in self.by_id(schema.id, context):
            if (known.subject, known.version) != (subject, key.version) and (
                known.text,
                known.type,
            ) != (schema.text, schema.type):
                return Outcome.DUPLICATE_ID
        self._forget(subject, key.version)
        self._keep(schema, context)
        return Outcome.APPLIED

    def _keep(self, schema: StoredSchema, context: str) -> None:
        place = (schema.subject, schema.version)
        versions = self._versions.setdefault(schema.subject, {})
        in_order = not versions or schema.version > next(reversed(versions))
        versions[schema.version] = schema
        if not in_order:
            self._versions[schema.subject] = dict(sorted(versions.items()))
        self._ids.setdefault(context, {}).setdefault(schema.id, {})[place] = None
        self._guids.setdefault(schema.guid, {})[context] = schema.id
        self._max_ids[context] = max(self._max_ids.get(context, 0), schema.id)
        if not schema.deleted:
            self._refer(schema, add=True)

    def _forget(self, subject: str, version: int) -> None:
        versions = self._versions.get(subject, {})
        schema = versions.pop(version, None)
        if schema is None:
            return
        if not versions:
            del self._versions[subject]
        context = SubjectName.of(subject).context
        places = self._ids[context][schema.id]
        places.pop((subject, version), None)
        if not places:
            del self._ids[context][schema.id]
            ids = self._guids.get(schema.guid, {})
            if ids.get(context) == schema.id:
                del ids[context]
            if not ids:
                self._guids.pop(schema.guid, None)
        self._refer(schema, add=False)

    def _refer(self, schema: StoredSchema, *, add: bool) -> None:
        name = SubjectName.of(schema.subject)
        for each in schema.references:
            target = (name.sibling(each.subject).text, each.version)
            if add:
                self._referrers.setdefault(target, set()).add((schema.subject, schema.version))
            elif target in self._referrers:
                self._referrers[target].discard((schema.subject, schema.version))
                if not self._referrers[target]:
                    del self._referrers[target]

    def _delete_versions(self, subject: str, last: int) -> None:
        for version, schema in list(self._versions.get(subject, {}).items()):
            if version <= last and not schema.deleted:
                self._versions[subject][version] = replace(schema, deleted=True)
                self._refer(schema, add=False)

    def _clear(self, subject: str | None) -> None:
        """Forget deleted versions of a subject, or of all subjects of a context."""
        for name in list(self._versions):
            if not covers(subject, name):
                continue
            for version, schema in list(self._versions[name].items()):
                if schema.deleted:
                    self._forget(name, version)

    def _apply_config(self, subject: str | None, value: Json | None) -> None:
        if value is None:
            self.configs.pop(subject, None)
        else:
            self.configs[subject] = {
                name: each for name, each in value.items() if name != "subject"
            }

    def _apply_kept(self, highest: Mapping[str, int], claim: int | None) -> None:
        if claim is not None:  # that claim was before this record, and may be gone
            self._kept_claim = max(self._kept_claim, claim)
            self.highest_claim = max(self.highest_claim, claim)
            self.claim = max(self.claim, claim)
        for context, schema_id in highest.items():
            self._kept_ids[context] = max(self._kept_ids.get(context, 0), schema_id)
            self._max_ids[context] = max(self._max_ids.get(context, 0), schema_id)

    def _apply_mode(self, subject: str | None, value: Json | None) -> None:
        if value is None:
            self.modes.pop(subject, None)
        elif isinstance(value.get("mode"), str):
            self.modes[subject] = value["mode"]

    # -- reading

    def subjects(self, prefix: str, *, deleted: bool = False, only: bool = False) -> list[str]:
        """Return the subjects under a prefix, in order.

        Args:
            deleted: also those whose versions are all deleted.
            only: only those.
        """
        return sorted(
            name
            for name, versions in self._versions.items()
            if is_below(name, prefix)
            and _shown(all(each.deleted for each in versions.values()), deleted, only)
        )

    def versions(
        self, subject: str, *, deleted: bool = False, only: bool = False
    ) -> list[StoredSchema]:
        """Return the versions of a subject, the oldest first."""
        found = self._versions.get(subject, {}).values()
        return [each for each in found if _shown(each.deleted, deleted, only)]

    def version(self, subject: str, version: int) -> StoredSchema | None:
        """Return a version, deleted or not."""
        return self._versions.get(subject, {}).get(version)

    def latest(self, subject: str, *, deleted: bool = False) -> StoredSchema | None:
        return next(
            (
                each
                for each in reversed(self._versions.get(subject, {}).values())
                if deleted or not each.deleted
            ),
            None,
        )

    def by_id(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> Iterator[StoredSchema]:
        """Yield the versions that have an id in a context, deleted ones too."""
        for subject, version in self._ids.get(context, {}).get(schema_id, ()):
            yield self._versions[subject][version]

    def ids_of_guid(self, guid: str) -> dict[str, int]:
        """Return the ids of a schema by context."""
        return self._guids.get(guid, {})

    def max_id(self, context: str) -> int:
        """Return the highest id that a context has seen."""
        return self._max_ids.get(context, 0)

    def keep_highest_id(self, context: str) -> list[Record]:
        """Return the records that must go before those that delete schemas of a context for good:
        none if the highest id is written down already."""
        highest = self.max_id(context)
        if self._kept_ids.get(context, 0) >= highest:
            return []
        return [highest_ids_record({**self._kept_ids, context: highest}, self.highest_claim)]

    @property
    def contexts_with_kept_ids(self) -> frozenset[str]:
        """Contexts whose highest id is written down, deleted ones with them."""
        return frozenset(self._kept_ids)

    def referrers(self, subject: str, version: int) -> list[StoredSchema]:
        """Return the versions that refer to one, deleted ones left out."""
        places = sorted(self._referrers.get((subject, version), ()))
        return [self._versions[name][number] for name, number in places]

    def contexts(self) -> list[str]:
        """Return all contexts; the default one is always there."""
        used = {SubjectName.of(each).context for each in self._versions}
        return sorted({DEFAULT_CONTEXT} | used | self._contexts)

    def keys_to_correct(self) -> list[RecordKey]:
        """Return the keys whose value the leader must write: those of late records, and that of the
        record which keeps the last claim, if it does not have it yet."""
        keys = list(self.late)
        if self._kept_claim < self.highest_claim and HIGHEST_IDS_KEY not in self.late:
            keys.insert(0, HIGHEST_IDS_KEY)
        return keys

    def records_of(self, key: RecordKey) -> list[Record]:
        """Return what holds under a key: what a late record is answered with.

        The deletion of a whole subject touches every version of it, so all of them are said again;
        likewise when deleted ones were to be forgotten.
        """
        if key.type not in (KeyType.DELETE_SUBJECT, KeyType.CLEAR_SUBJECT):
            return [self._record_of(key)]
        names = [key.subject or ""]
        if key.type is KeyType.CLEAR_SUBJECT:
            names = [each for each in self._versions if covers(key.subject, each)]
        versions = [each for name in names for each in self.versions(name, deleted=True)]
        return [*map(schema_record, versions), Record(key)]

    def _record_of(self, key: RecordKey) -> Record:
        match key.type:
            case KeyType.SCHEMA:
                schema = self.version(key.subject or "", key.version)
                if schema is None:
                    return schema_tombstone(key.subject or "", key.version)
                return schema_record(schema)
            case KeyType.CONFIG:
                config = self.configs.get(key.subject)
                if config is None or key.subject is None:
                    return Record(key, config)
                return Record(key, {"subject": key.subject, **config})
            case KeyType.MODE:
                mode = self.modes.get(key.subject)
                if mode is None:
                    return Record(key)
                named = {} if key.subject is None else {"subject": key.subject}
                return Record(key, {**named, "mode": mode})
            case KeyType.ASSOCIATION:
                return Record(key, self.associations.get(key))
            case KeyType.CONTEXT:
                return context_record(key.context, present=key.context in self._contexts)
            case KeyType.NOOP if key == HIGHEST_IDS_KEY:
                return highest_ids_record(self._kept_ids, self.highest_claim)
        return Record(key)


def covers(subject: str | None, name: str) -> bool:
    """Return whether a key of a mode or of clearing is about a subject: it has its own name or that
    of its context. None is the key of the default context, as for configurations and modes."""
    wanted = SubjectName.of(subject or "")
    if wanted.is_context:
        return SubjectName.of(name).context == wanted.context
    return name == subject


def _shown(is_deleted: bool, deleted: bool, only: bool) -> bool:
    return is_deleted if only else deleted or not is_deleted
