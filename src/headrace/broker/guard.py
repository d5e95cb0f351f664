"""Decides for handlers whether the client of a call may do what it asks for.

Without an authorizer every client may do everything, and the question costs next to nothing.
"""

from dataclasses import dataclass
from uuid import UUID

from headrace.broker.auth.authorizer import Authorizer, all_operations, parse_principals
from headrace.broker.auth.resource import CLUSTER_NAME, Operation, ResourceType
from headrace.broker.call import Call
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.replica.topic_table import TopicTable
from headrace.model.error import ConfigError


@dataclass(frozen=True, slots=True)
class PrincipalRights:
    """The rights of one principal from one host on topics (a `TopicRights` of the groups)."""

    authorizer: Authorizer
    principal: str
    host: str

    @property
    def version(self) -> int:
        return self.authorizer.version

    def may_describe(self, name: str) -> bool:
        return self.authorizer.would_allow(
            self.principal, self.host, Operation.DESCRIBE, ResourceType.TOPIC, name
        )


class Guard:
    """The authorizer, in terms of calls. Lives on the event loop."""

    def __init__(self, authorizer: Authorizer | None, topics: TopicTable) -> None:
        self.authorizer = authorizer
        self._topics = topics

    def may(self, call: Call, operation: Operation, kind: ResourceType, name: str) -> bool:
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows(
            call.principal, call.connection.peer_host, operation, kind, name
        )

    def may_on_cluster(self, call: Call, operation: Operation) -> bool:
        return self.may(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_any(self, call: Call, operation: Operation, kind: ResourceType) -> bool:
        """Return whether the client may do the operation on some resource of the type (KIP-679)."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows_any(
            call.principal, call.connection.peer_host, operation, kind
        )

    def denies_topic(
        self, call: Call, operation: Operation, name: str | None, topic_id: UUID | None = None
    ) -> bool:
        """Return whether the client may not do the operation on a topic.

        Handlers ask before they look the topic up: whether it exists is a secret, too. An unknown
        id is not denied, as it gives nothing away: the look-up reports it missing.
        """
        if self.authorizer is None:
            return False
        if name is None:
            topic = None if topic_id is None else self._topics.by_id(topic_id)
            if topic is None:
                return False
            name = topic.name
        return not self.may(call, operation, ResourceType.TOPIC, name)

    def topic_rights(self, call: Call) -> PrincipalRights | None:
        """Return what the client may do with topics that it does not name, for the groups."""
        if self.authorizer is None:
            return None
        return PrincipalRights(self.authorizer, call.principal, call.connection.peer_host)

    def denies_group(self, call: Call, operation: Operation, group_id: str) -> bool:
        return not self.may(call, operation, ResourceType.GROUP, group_id)

    def denies_transactional_id(self, call: Call, operation: Operation, named: str) -> bool:
        return not self.may(call, operation, ResourceType.TRANSACTIONAL_ID, named)

    def operations(self, call: Call, kind: ResourceType, name: str) -> int:
        """Return what the client may do with a resource, one bit per operation (KIP-430)."""
        if self.authorizer is None:
            return all_operations(kind)
        return self.authorizer.operations(call.principal, call.connection.peer_host, kind, name)


def configured_authorizer(settings: BrokerSettings) -> Authorizer | None:
    """Return the authorizer that the settings ask for; None where requests are not checked.

    Raises:
        ConfigError: a super user without its type.
    """
    if not settings["authorizer.class.name"]:
        return None
    principals = parse_principals(settings["super.users"])
    for principal in principals:
        if not principal.startswith("User:"):
            raise ConfigError(f"super.users has {principal!r}: write it as User:{principal}")
    return Authorizer(principals, open_without_acl=bool(settings["allow.everyone.if.no.acl.found"]))
