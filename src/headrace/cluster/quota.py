"""Client quotas (KIP-13, KIP-546): limits for users, client ids and addresses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headrace.cluster.rejection import ClusterError, Rejection

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, sorted by type; the name None is the default of that type."""

# An empty name is never a name: see `quota_problem`.
ANY = ""

_BYTE_KEYS = ("producer_byte_rate", "consumer_byte_rate")
_CLIENT_KEYS = (*_BYTE_KEYS, "request_percentage", "controller_mutation_rate")
_IP_KEYS = ("connection_creation_rate",)
_CLIENT_TYPES = [("client-id",), ("user",), ("client-id", "user")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """What one entity may use, by quota key."""

    KIND: ClassVar[str] = "quotas"

    entity: QuotaEntity
    values: Mapping[str, float] = field(default_factory=dict)

    def key(self) -> tuple[str, ...]:
        """Return the node's name parts; a sign before a name distinguishes it from the default."""
        return tuple(
            part
            for type_, name in self.entity
            for part in (type_, "default" if name is None else f"={name}")
        )

    def to_json(self) -> dict[str, Any]:
        return {"values": dict(self.values)}

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "ClientQuota":
        pairs = zip(key[::2], key[1::2], strict=True)
        return cls(
            entity=tuple((type_, name[1:] if name[0] == "=" else None) for type_, name in pairs),
            values=fields["values"],
        )


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Which entities DescribeClientQuotas means.

    Attributes:
        names: by type: a name, None for that type's default, or `ANY` for whatever is there.
        strict: the entity has no other types than these.
    """

    names: Mapping[str, str | None]
    strict: bool = False

    def accepts(self, entity: QuotaEntity) -> bool:
        actual = dict(entity)
        if self.strict and len(actual) != len(self.names):
            return False
        return all(
            type_ in actual and (name == ANY or name == actual[type_])
            for type_, name in self.names.items()
        )


def quota_problem(entity: QuotaEntity, values: Mapping[str, float | None]) -> Rejection | None:
    """Return why these values cannot be set for this entity, or None when they can."""
    types = tuple(type_ for type_, _ in entity)
    if types == ("ip",):
        known: tuple[str, ...] = _IP_KEYS
    elif types in _CLIENT_TYPES:
        known = _CLIENT_KEYS
    else:
        return Rejection(
            ClusterError.INVALID_REQUEST,
            f"a quota is for 'user', 'client-id', both of them, or 'ip', not for {list(types)}",
        )
    if any(name == "" for _, name in entity):
        return Rejection(
            ClusterError.INVALID_REQUEST, "a quota cannot be for an empty name: null is the default"
        )
    for key, value in values.items():
        if key not in known:
            return Rejection(
                ClusterError.INVALID_REQUEST,
                f"there is no quota {key!r} for {list(types)}: write one of {', '.join(known)}",
            )
        if value is not None and (not value > 0 or (key in _BYTE_KEYS and value != int(value))):
            return Rejection(
                ClusterError.INVALID_REQUEST,
                f"the quota {key} cannot be {value}: it is a positive number, whole if of bytes",
            )
    return None


def altered(
    current: ClientQuota | None, entity: QuotaEntity, values: Mapping[str, float | None]
) -> ClientQuota | None:
    """Return the quota with these values set, and removed where None; None if none is left."""
    kept = {} if current is None else dict(current.values)
    for key, value in values.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = value
    return ClientQuota(entity=entity, values=kept) if kept else None
