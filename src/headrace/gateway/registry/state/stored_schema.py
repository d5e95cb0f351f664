"""One version of one subject, as the registry holds it."""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from headrace.schema.schema import Reference, SchemaType

Json = dict[str, Any]


@dataclass(frozen=True)
class StoredSchema:
    """A version. `metadata` and `rule_set` are JSON objects that must not be changed.

    Attributes:
        subject: its qualified name.
        ts: when its record was written, in milliseconds.
    """

    subject: str
    version: int
    id: int
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    deleted: bool = False
    ts: int | None = None

    @cached_property
    def guid(self) -> str:
        """The name of this schema everywhere: other registries compute the same one."""
        return schema_guid(self.text, self.references, self.metadata, self.rule_set)

    def entity(self) -> Json:
        """Return the object that answers show."""
        found: Json = {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "guid": self.guid,
            **self.description(),
        }
        if self.ts is not None:
            found["ts"] = self.ts
        if self.deleted:
            found["deleted"] = True
        return found

    def description(self) -> Json:
        """Return what it is, without where it is registered. Avro is not named, as ever."""
        found: Json = {}
        if self.type is not SchemaType.AVRO:
            found["schemaType"] = self.type.value
        if self.references:
            found["references"] = [reference_entity(each) for each in self.references]
        if self.metadata is not None:
            found["metadata"] = self.metadata
        if self.rule_set is not None:
            found["ruleSet"] = self.rule_set
        found["schema"] = self.text
        return found


def reference_entity(reference: Reference) -> Json:
    return {
        "name": reference.name,
        "subject": reference.subject,
        "version": reference.version,
    }


def schema_guid(
    text: str,
    references: Iterable[Reference],
    metadata: Mapping[str, Any] | None,
    rule_set: Mapping[str, Any] | None,
) -> str:
    """Return the GUID of a schema: an MD5 over its parts, in the order that Confluent fixed.

    Byte format: text; per reference name, subject and version (4 bytes, big endian); if there is
    metadata a byte 1, then tags, properties and sensitive names in sorted order; if there is a rule
    set a byte 1, then the rules' members in the order of `_rule_bytes`.
    """
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for each in references:
        digest.update(each.name.encode() + each.subject.encode())
        digest.update(struct.pack(">i", each.version))
    if metadata is not None:
        digest.update(b"\x01")
        for name, values in sorted((metadata.get("tags") or {}).items()):
            digest.update("".join((name, *sorted(values))).encode())
        for name, value in sorted((metadata.get("properties") or {}).items()):
            digest.update((name + value).encode())
        digest.update("".join(sorted(metadata.get("sensitive") or ())).encode())
    if rule_set is not None:
        digest.update(b"\x01")
        for kind in ("migrationRules", "domainRules", "encodingRules"):
            for rule in rule_set.get(kind) or ():
                digest.update(_rule_bytes(rule))
    return str(UUID(bytes=digest.digest()))


def _rule_bytes(rule: Mapping[str, Any]) -> bytes:
    parts = [rule.get(name) or "" for name in ("name", "doc", "kind", "mode", "type")]
    parts += sorted(rule.get("tags") or ())
    for name, value in sorted((rule.get("params") or {}).items()):
        parts += (name, value)
    parts += [rule.get(name) or "" for name in ("expr", "onSuccess", "onFailure")]
    return "".join(parts).encode() + (b"\x01" if rule.get("disabled") else b"")
