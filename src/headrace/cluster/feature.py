"""Finalized features (KIP-584): switches that clients and brokers agree on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Feature:
    """A level, such as `group.version` 1 (KIP-848) or `transaction.version` 2 (KIP-890)."""

    KIND: ClassVar[str] = "features"

    name: str
    level: int

    def key(self) -> tuple[str, ...]:
        return (self.name,)

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level}

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "Feature":
        (name,) = key
        return cls(name, fields["level"])


GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"

DEFAULT_FEATURES = (Feature(GROUP_VERSION, 1), Feature(TRANSACTION_VERSION, 2))
"""The highest level of every feature that this version has; a new cluster begins with them."""
