"""Who may use the nodes of a cluster in ZooKeeper, as Kafka has it.

Rule 1: only the brokers' identity creates, changes and deletes nodes.
Rule 2: anyone who reaches the ensemble may read them, for tools and for looking, except
        `SENSITIVE_KINDS`: SCRAM keys, and configurations of brokers and links, which may hold
        passwords.
Rule 3: nodes made before ACLs were switched on are closed when the next broker starts, parents
        before children, so that no node appears in between.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import (
    ACL,
    AUTH_IDS,
    READ_ACL_UNSAFE,
    Id,
    Permissions,
    make_digest_acl_credential,
)

from headrace.cluster.broker import BrokerConfig
from headrace.cluster.credential import ScramCredential
from headrace.cluster.resource_config import ResourceConfig
from headrace.cluster.zookeeper.zookeeper_access import ZooKeeperLogin

SENSITIVE_KINDS = frozenset({ScramCredential.KIND, BrokerConfig.KIND, ResourceConfig.KIND})

_ROOT = "/"
# Requests on their way at a time.
_PIPELINE = 500


class NodeAcls:
    """The ACL of every node.

    Args:
        login: whose the nodes are; None for the identity that the connection has by itself, the
            subject of its certificate.
    """

    def __init__(self, login: ZooKeeperLogin | None) -> None:
        self._own = [ACL(Permissions.ALL, _identity(login))]
        self._readable = [*self._own, *READ_ACL_UNSAFE]

    def of(self, path: str) -> list[ACL]:
        """Return the ACL of a node, or of a kind's folder."""
        return self._own if path.split("/")[1] in SENSITIVE_KINDS else self._readable

    def apply(self, client: KazooClient, wait_seconds: float) -> int:
        """Set the ACL of every node that has another one, and return how many those were.

        Raises:
            KazooException: a node belongs to another identity, or the connection broke.
        """
        count = 0
        # What the server makes of "the identity of this connection" shows only in a node.
        client.set_acls_async(_ROOT, self._readable).get(timeout=wait_seconds)
        readable = set(client.get_acls_async(_ROOT).get(timeout=wait_seconds)[0])
        own = readable - set(READ_ACL_UNSAFE)
        level = [_ROOT]
        while level:
            wrong = []
            for path, answer in _asked(client.get_acls_async, level):
                with suppress(NoNodeError):
                    stored = set(answer.get(timeout=wait_seconds)[0])
                    wanted = own if self.of(path) is self._own else readable
                    if stored != wanted:
                        wrong.append(path)
            changes = _asked(lambda path: client.set_acls_async(path, self.of(path)), wrong)
            for _, answer in changes:
                with suppress(NoNodeError):
                    answer.get(timeout=wait_seconds)
            count += len(wrong)
            below = []
            for path, answer in _asked(client.get_children_async, level):
                with suppress(NoNodeError):
                    names = answer.get(timeout=wait_seconds)
                    below += [f"{path.rstrip('/')}/{name}" for name in names]
            level = below
        return count


def _identity(login: ZooKeeperLogin | None) -> Id:
    if login is None:
        return AUTH_IDS
    if login.scheme == "sasl":
        return Id("sasl", login.user)
    return Id("digest", make_digest_acl_credential(login.user, login.password))


def _asked(ask: Any, paths: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield each path with its answer, many requests on their way at a time."""
    for start in range(0, len(paths), _PIPELINE):
        piece = paths[start : start + _PIPELINE]
        yield from zip(piece, [ask(path) for path in piece], strict=True)
