"""The records of `_schemas`: keys and values in JSON, with the bytes that Confluent's registry has.

| key | value |
|---|---|
| `{"keytype":"SCHEMA","subject":S,"version":V,"magic":1}` | the schema; none after its end |
| `{"keytype":"CONFIG","subject":S,"magic":0}` | `{"subject":S,"compatibilityLevel":L,...}` |
| `{"keytype":"MODE","subject":S,"magic":0}` | `{"subject":S,"mode":M}` |
| `{"keytype":"DELETE_SUBJECT","subject":S,"magic":0}` | `{"subject":S,"version":V}`: V and before |
| `{"keytype":"CLEAR_SUBJECT","subject":S,"magic":0}` | `{"subject":S}`: forget deleted versions |
| `{"keytype":"CONTEXT","tenant":T,"context":C,"magic":0}` | `{"tenant":T,"context":C}` |
| `{"keytype":"ASSOC",...}` | an association of a subject with a topic |
| `{"keytype":"NOOP","magic":0}` | none: written to be read back |
| `{"magic":0,"keytype":"NOOP"}` | `{"highestIds":{C:I},"claim":N}`: what compaction must keep |

Rule 1: the order of a key's members is fixed: compaction compares bytes. Readers take any order,
for Karapace once wrote another one.
Rule 2: a value of no bytes is a tombstone too; Karapace writes those.
Rule 3: the last key is our own. Other registries take it for the one before it, whose value they do
not read. Its bytes are others, so compaction keeps it apart. Its value has the highest id that each
context C had, and the number N of the last claim: a claim itself is a tombstone, and vanishes.
Rule 4: a key of another type, or a record that cannot be read, is passed over. It stays in the
topic.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeGuard

from headrace.gateway.registry.state.stored_schema import Json, StoredSchema, reference_entity
from headrace.schema.schema import Reference, SchemaType

TENANT: Final = "default"
CLAIM_LIMIT: Final = 10**18
"""The numbers of claims are below this."""


class KeyType(StrEnum):
    """What a record is about."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    ASSOCIATION = "ASSOC"
    NOOP = "NOOP"


@dataclass(frozen=True, slots=True)
class RecordKey:
    """A key. Members that its type does not have are empty.

    Attributes:
        subject: None for the configuration and mode of the default context.
        parts: of an association, which its `resource_parts` name.
    """

    type: KeyType
    subject: str | None = None
    version: int = 0
    context: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One record to write; without a value it ends what its key names."""

    key: RecordKey
    value: Json | None = None


HIGHEST_IDS_KEY: Final = RecordKey(KeyType.NOOP, context="highestIds")
_HIGHEST_IDS_BYTES: Final = b'{"magic":0,"keytype":"NOOP"}'

_ASSOCIATION_PARTS: Final = (
    "resourceName",
    "resourceNamespace",
    "resourceType",
    "associationType",
)


def write_key(key: RecordKey) -> bytes:
    """Return the bytes of a key.

    >>> write_key(RecordKey(KeyType.SCHEMA, "orders", 2))
    b'{"keytype":"SCHEMA","subject":"orders","version":2,"magic":1}'
    >>> write_key(RecordKey(KeyType.CONFIG))
    b'{"keytype":"CONFIG","magic":0}'
    """
    members: Json = {"keytype": key.type.value}
    if key.type is KeyType.CONTEXT:
        members |= {"tenant": TENANT, "context": key.context}
    elif key.type is KeyType.ASSOCIATION:
        members |= {"tenant": TENANT} | dict(zip(_ASSOCIATION_PARTS, key.parts, strict=True))
    elif key == HIGHEST_IDS_KEY:
        return _HIGHEST_IDS_BYTES
    if key.subject is not None:
        members["subject"] = key.subject
    if key.type is KeyType.SCHEMA:
        members["version"] = key.version
    members["magic"] = 1 if key.type is KeyType.SCHEMA else 0
    return write_json(members)


def read_key(data: bytes) -> RecordKey | None:
    """Return a key; None if it is of a type that is not known here.

    Raises:
        ValueError: the bytes are no key.
    """
    if data == _HIGHEST_IDS_BYTES:
        return HIGHEST_IDS_KEY
    members = _read_json(data)
    if not isinstance(members, dict):
        raise ValueError("a key is a JSON object")
    try:
        kind = KeyType(str(members.get("keytype")))
    except ValueError:
        return None
    subject = members.get("subject")
    version = members.get("version", 0)
    if not isinstance(subject, str | None) or not _is_number(version):
        raise ValueError("a key has a subject and a version")
    if kind is KeyType.SCHEMA and (not subject or version < 1):
        raise ValueError("the key of a schema names a subject and a version")
    parts: tuple[str, ...] = ()
    if kind is KeyType.ASSOCIATION:
        parts = tuple(str(members.get(each) or "") for each in _ASSOCIATION_PARTS)
    if kind is not KeyType.SCHEMA:
        version = 0
    context = str(members.get("context") or "") if kind is KeyType.CONTEXT else ""
    return RecordKey(kind, subject or None, version, context, parts)


def read_value(data: bytes | None) -> Json | None:
    """Return a value; None for a tombstone.

    Raises:
        ValueError: the bytes are no JSON object.
    """
    if not data:
        return None
    value = _read_json(data)
    if value is None or value == "":
        return None
    if not isinstance(value, dict):
        raise ValueError("a value is a JSON object")
    return value


def read_number(value: Mapping[str, Any], name: str) -> int:
    """Return a member that is a number.

    Raises:
        ValueError: it is none, or not there.
    """
    number = value.get(name)
    if not _is_number(number):
        raise ValueError(f"{name} is a number of 31 bits")
    return int(number)


def _is_number(value: Any) -> TypeGuard[int]:
    """Return whether a value can be an id or a version: others hold these in 32 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _read_json(data: bytes) -> Any:
    text = data.decode()
    value = json.loads(text)
    if "\\u" in text:  # half of a pair of UTF-16 could be read, and never be written again
        json.dumps(value, ensure_ascii=False).encode()
    return value


def write_json(value: Mapping[str, Any]) -> bytes:
    """Return JSON without spaces, as all registries write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def schema_record(schema: StoredSchema) -> Record:
    """Return the record of a version, with the members in Confluent's order."""
    value: Json = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid,
    }
    if schema.type is not SchemaType.AVRO:
        value["schemaType"] = schema.type.value
    if schema.references:
        value["references"] = [reference_entity(each) for each in schema.references]
    if schema.metadata is not None:
        value["metadata"] = schema.metadata
    if schema.rule_set is not None:
        value["ruleSet"] = schema.rule_set
    value["schema"] = schema.text
    value["deleted"] = schema.deleted
    return Record(RecordKey(KeyType.SCHEMA, schema.subject, schema.version), value)


def schema_tombstone(subject: str, version: int) -> Record:
    return Record(RecordKey(KeyType.SCHEMA, subject, version))


def read_schema(key: RecordKey, value: Json, ts: int | None) -> StoredSchema:
    """Return the version of a record.

    Raises:
        ValueError: the value is no schema.
        TypeError, AttributeError, struct.error: a part of it has another form.
    """
    schema_id, text = read_number(value, "id"), value.get("schema")
    if not isinstance(text, str):
        raise ValueError("a schema has a text")
    metadata, rule_set = value.get("metadata"), value.get("ruleSet")
    if not isinstance(metadata, dict | None) or not isinstance(rule_set, dict | None):
        raise ValueError("metadata and rule set are objects")
    schema = StoredSchema(
        key.subject or "",
        key.version,
        schema_id,
        SchemaType(value.get("schemaType") or "AVRO"),
        text,
        read_references(value.get("references")),
        metadata,
        rule_set,
        bool(value.get("deleted", False)),
        ts,
    )
    _ = schema.guid  # computed now, which fails for metadata and rules of another form
    return schema


def read_references(value: Any) -> tuple[Reference, ...]:
    """Return the references of a record or a request.

    Raises:
        ValueError: the value has another form.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("references are a list")
    return tuple(_references(value))


def _references(value: Iterable[Any]) -> Iterable[Reference]:
    for each in value:
        if not isinstance(each, dict):
            raise ValueError("a reference has name, subject and version")
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if not isinstance(name, str) or not isinstance(subject, str):
            raise ValueError("a reference has name, subject and version")
        if version != -1 and not _is_number(version):  # -1: the latest, in requests
            raise ValueError("a reference has name, subject and version")
        yield Reference(name, subject, version)


def config_record(subject: str | None, config: Json | None) -> Record:
    key = RecordKey(KeyType.CONFIG, subject)
    if config is None:
        return Record(key)
    return Record(key, config if subject is None else {"subject": subject, **config})


def mode_record(subject: str | None, mode: str | None) -> Record:
    key = RecordKey(KeyType.MODE, subject)
    if mode is None:
        return Record(key)
    return Record(key, {"mode": mode} if subject is None else {"subject": subject, "mode": mode})


def delete_subject_record(subject: str, last_version: int) -> Record:
    key = RecordKey(KeyType.DELETE_SUBJECT, subject)
    return Record(key, {"subject": subject, "version": last_version})


def clear_subject_record(subject: str | None) -> Record:
    key = RecordKey(KeyType.CLEAR_SUBJECT, subject)
    return Record(key, {} if subject is None else {"subject": subject})


def context_record(context: str, *, present: bool = True) -> Record:
    key = RecordKey(KeyType.CONTEXT, context=context)
    return Record(key, {"tenant": TENANT, "context": context} if present else None)


def highest_ids_record(highest: Mapping[str, int], claim: int) -> Record:
    """Return the record that keeps the highest ids of contexts when their schemas are gone, and the
    highest number of a claim, if there was one, when compaction has removed the claim."""
    value: Json = {"highestIds": dict(sorted(highest.items()))}
    if claim >= 0:
        value["claim"] = claim
    return Record(HIGHEST_IDS_KEY, value)


def read_highest_ids(value: Mapping[str, Any]) -> dict[str, int]:
    """Return the highest ids by context.

    Raises:
        ValueError: the value has another form.
    """
    found = value.get("highestIds", {})
    if not isinstance(found, dict) or not all(map(_is_number, found.values())):
        raise ValueError("highestIds maps contexts to ids")
    return found


def read_kept_claim(value: Mapping[str, Any]) -> int | None:
    """Return the number of the claim that a record keeps; None if it keeps none.

    Raises:
        ValueError: it is no such number.
    """
    number = value.get("claim")
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < CLAIM_LIMIT:
        raise ValueError("the number of a claim is not negative and has at most 18 digits")
    return number


NOOP: Final = Record(RecordKey(KeyType.NOOP))
