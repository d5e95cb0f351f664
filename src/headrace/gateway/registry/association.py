"""Associations: which subjects the keys and values of a topic have, as Confluent's registry keeps.

A resource is a topic, with a name in a namespace (that of its cluster) and an id. It has at most
one association of a type, which is `key` or `value`; another id with the same names does not take
it over. A strong one owns its subject: the subject has no other, and goes with it. A weak one
shares it. A frozen one is strong and does not change.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.gateway.registry.error import (
    association_frozen,
    association_of_resource_exists,
    association_of_subject_exists,
    invalid_association,
    no_active_version,
    strong_association_exists,
)
from headrace.gateway.registry.state.record import (
    TENANT,
    KeyType,
    Record,
    RecordKey,
)
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.stored_schema import Json
from headrace.gateway.registry.state.subject_name import SubjectName

TOPIC: Final = "topic"
TYPES: Final = ("key", "value")
LIFECYCLES: Final = ("STRONG", "WEAK")
_MOST_LETTERS: Final = 1024
_SHOWN: Final = (
    "subject",
    "guid",
    "resourceName",
    "resourceNamespace",
    "resourceId",
    "resourceType",
    "associationType",
    "lifecycle",
    "frozen",
)


@dataclass(frozen=True, slots=True)
class Resource:
    """What subjects are associated with."""

    name: str
    namespace: str
    id: str


@dataclass(frozen=True, slots=True)
class Wish:
    """One association of a request. None leaves what an association has, or is the default.

    Attributes:
        schema: the body by which a version is to be registered as well.
    """

    subject: str
    type: str
    lifecycle: str | None = None
    frozen: bool | None = None
    schema: Json | None = None
    normalize: bool = False


def read_resource(body: Mapping[str, Any], resource_id: str | None) -> Resource:
    """Return the resource of a request.

    Args:
        resource_id: that of the path, if it has one.

    Raises:
        RegistryError: 42212.
    """
    own = body.get("resourceId")
    if resource_id is not None and own not in (None, resource_id):
        raise invalid_association("resourceId", "it is another one than that of the path")
    if body.get("resourceType") not in (None, "", TOPIC):
        raise invalid_association("resourceType", f"must be '{TOPIC}'")
    return Resource(
        _name(body, "resourceName"),
        _name(body, "resourceNamespace"),
        _name({"resourceId": resource_id if own is None else own}, "resourceId"),
    )


def _name(body: Mapping[str, Any], member: str) -> str:
    value = body.get(member)
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_LETTERS or not value.isprintable():
        raise invalid_association(member, f"must be a text of 1 to {_MOST_LETTERS} letters")
    return value


def read_wishes(body: Mapping[str, Any], resource: Resource, context: str) -> list[Wish]:
    """Return the associations of a request.

    Args:
        context: that of subjects without one.

    Raises:
        RegistryError: 42212.
    """
    members = body.get("associations")
    if not isinstance(members, list) or not 0 < len(members) <= len(TYPES):
        raise invalid_association("associations", f"must be a list of 1 to {len(TYPES)}")
    found = [_wish(each, resource, context) for each in members]
    if len({each.type for each in found}) < len(found):
        raise invalid_association("associationType", "each type may come once")
    return found


def _wish(value: Any, resource: Resource, context: str) -> Wish:
    if not isinstance(value, dict):
        raise invalid_association("associations", "must be a list of objects")
    kind = value.get("associationType") or "value"
    if kind not in TYPES:
        raise invalid_association("associationType", f"must be one of {', '.join(TYPES)}")
    lifecycle, frozen = value.get("lifecycle"), value.get("frozen")
    if lifecycle not in (None, *LIFECYCLES):
        raise invalid_association("lifecycle", f"must be one of {', '.join(LIFECYCLES)}")
    if not isinstance(frozen, bool | None) or not isinstance(value.get("normalize"), bool | None):
        raise invalid_association("frozen", "frozen and normalize are true or false")
    if frozen and lifecycle == "WEAK":
        raise invalid_association("frozen", "an association with lifecycle WEAK cannot be frozen")
    schema = value.get("schema")
    if not isinstance(schema, dict | None):
        raise invalid_association("schema", "must be an object, as for registering a version")
    default = f":.{resource.namespace}:{resource.name}-{kind}"
    text = value.get("subject")
    subject = SubjectName(context, "").sibling(default if text is None else str(text))
    if not subject.is_valid:
        raise invalid_association("subject", "is no name of a subject")
    if frozen and subject.text != default:
        raise invalid_association("subject", f"a frozen association has subject '{default}'")
    return Wish(subject.text, kind, lifecycle, frozen, schema, bool(value.get("normalize")))


def plan_association(
    state: RegistryState, resource: Resource, wish: Wish, *, create: bool
) -> tuple[Json, list[Record]]:
    """Return an association as it then is, and the record for it, unless it is so already.

    Args:
        create: whether one that is there, and another one, is refused rather than changed.

    Raises:
        RegistryError: 40903, 40904, 40905, 40907, 40908, 42212.
    """
    key, old = _existing(state, resource, wish)
    if wish.schema is None and state.latest(wish.subject) is None:
        raise no_active_version(wish.subject)
    if old is None:
        new = _new(state, resource, wish)
    else:
        new = _changed(old, resource, wish, create=create)
    others = [
        each
        for other, each in state.associations.items()
        if each.get("subject") == wish.subject and other != key
    ]
    if others and new["lifecycle"] == "STRONG":
        raise association_of_subject_exists(wish.type, wish.subject)
    if any(each.get("lifecycle") == "STRONG" for each in others):
        raise strong_association_exists(wish.type, wish.subject)
    return new, [] if new == old else [Record(key, new)]


def check_together(associations: Sequence[Json]) -> None:
    """Refuse associations of one request of which one owns the subject of another.

    Raises:
        RegistryError: 40904.
    """
    for index, each in enumerate(associations):
        for other in associations[:index]:
            if each["subject"] == other["subject"] and "STRONG" in (
                each.get("lifecycle"),
                other.get("lifecycle"),
            ):
                raise association_of_subject_exists(other["associationType"], each["subject"])


def _existing(
    state: RegistryState, resource: Resource, wish: Wish
) -> tuple[RecordKey, Json | None]:
    """Return the key of a wish and what is there: the association of the resource's id, or else
    the one with the same key, which may be that of another id."""
    for key, value in find_associations(state):
        if value.get("resourceId") == resource.id and value.get("associationType") == wish.type:
            return key, value
    parts = (resource.name, resource.namespace, TOPIC, wish.type)
    key = RecordKey(KeyType.ASSOCIATION, wish.subject, parts=parts)
    return key, state.associations.get(key)


def _new(state: RegistryState, resource: Resource, wish: Wish) -> Json:
    if wish.frozen and (wish.schema is None or state.latest(wish.subject) is not None):
        raise invalid_association("frozen", "a frozen association begins with its only schema")
    lifecycle = wish.lifecycle or ("STRONG" if wish.frozen else "WEAK")
    return {
        "subject": wish.subject,
        "guid": str(uuid.uuid4()),
        "tenant": TENANT,
        "resourceName": resource.name,
        "resourceNamespace": resource.namespace,
        "resourceId": resource.id,
        "resourceType": TOPIC,
        "associationType": wish.type,
        "lifecycle": lifecycle,
        "frozen": bool(wish.frozen),
    }


def _changed(old: Json, resource: Resource, wish: Wish, *, create: bool) -> Json:
    new = {**old, "lifecycle": wish.lifecycle or old.get("lifecycle", "WEAK")}
    frozen = bool(old.get("frozen"))
    is_own = old.get("resourceId") == resource.id
    is_same = new == old and old.get("subject") == wish.subject and wish.frozen in (None, frozen)
    if is_own and is_same:
        return old
    if create:
        raise association_of_resource_exists(wish.type, str(old.get("resourceId")))
    if not is_own and not frozen:
        raise invalid_association(
            "resourceId",
            f"'{resource.name}' has this association under another id: delete that one first",
        )
    if old.get("subject") != wish.subject:
        raise invalid_association("subject", "the subject of an association cannot be changed")
    if is_own and wish.frozen not in (None, frozen):
        raise invalid_association("frozen", "frozen cannot be changed")
    if frozen:
        raise association_frozen(wish.type, wish.subject)
    return new


def find_associations(state: RegistryState, **members: str) -> Iterator[tuple[RecordKey, Json]]:
    """Yield the associations whose members are these."""
    for key, value in state.associations.items():
        if all(value.get(name) == wanted for name, wanted in members.items()):
            yield key, value


def shown_association(value: Mapping[str, Any]) -> Json:
    """Return an association as answers have it."""
    return {name: value[name] for name in _SHOWN if name in value}
