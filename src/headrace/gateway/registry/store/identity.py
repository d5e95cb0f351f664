"""What instances tell each other through their group: who they are, and who leads.

The group's protocol is that of Confluent's and Karapace's registries: type `sr`, name `v0`, with
these JSON documents as metadata and assignment. Instances of all three can share a group,
but nothing protects such a group against two leaders at once (`registry_state`, rule 2).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PROTOCOL_TYPE: Final = "sr"
PROTOCOL_NAME: Final = "v0"
_VERSION: Final = 1

DUPLICATE_URLS: Final = 1
"""Two members have the same address: requests could not be forwarded."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Where an instance is reached by the others."""

    host: str
    port: int
    scheme: str = "http"
    eligible: bool = True

    @property
    def url(self) -> str:
        """Where it is reached.

        >>> Identity("::1", 8081).url
        'http://[::1]:8081'
        """
        is_bare_ipv6 = ":" in self.host and not self.host.startswith("[")
        host = f"[{self.host}]" if is_bare_ipv6 else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def document(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.eligible,
            "scheme": self.scheme,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Identity":
        """Read the document of any registry.

        Raises:
            ValueError, KeyError, TypeError: it is no identity.
        """
        return cls(
            str(document["host"]),
            int(document["port"]),
            str(document.get("scheme") or "http"),
            bool(document.get("master_eligibility", True)),
        )


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who leads, as the group's leader in Kafka's sense has decided.

    Attributes:
        leader: None if no member may lead.
    """

    leader: Identity | None
    error: int = 0


def pack_identity(identity: Identity) -> bytes:
    return json.dumps(identity.document(), separators=(",", ":")).encode()


def read_identity(data: bytes) -> Identity:
    """Raises ValueError if the bytes are none."""
    try:
        return Identity.of(json.loads(data))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no identity: {error!r}") from error


def assign(members: Mapping[str, bytes]) -> bytes:
    """Choose the leader: the one with the lowest address of those that may lead.

    Args:
        members: the identities by member id.

    >>> low, high = pack_identity(Identity("a", 1)), pack_identity(Identity("b", 1))
    >>> read_assignment(assign({"m1": high, "m2": low})).leader.host
    'a'
    """
    identities = {}
    for member, data in members.items():
        try:
            identities[member] = read_identity(data)
        except ValueError:
            continue
    urls = {each.url for each in identities.values()}
    document: dict[str, Any] = {
        "version": _VERSION,
        "error": DUPLICATE_URLS if len(urls) < len(identities) else 0,
    }
    eligible = [(each.url, member) for member, each in identities.items() if each.eligible]
    if eligible:
        member = min(eligible)[1]
        document |= {"master": member, "master_identity": identities[member].document()}
    return json.dumps(document, separators=(",", ":")).encode()


def read_assignment(data: bytes) -> Assignment:
    """Raises ValueError if the bytes are none."""
    try:
        document = json.loads(data)
        leader = document.get("master_identity")
        return Assignment(
            None if leader is None else Identity.of(leader), int(document.get("error") or 0)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no assignment: {error!r}") from error
