"""One change of a shard's groups between its decision and its append."""

from collections.abc import Collection
from dataclasses import dataclass, field

from headrace.groups.effect import GroupOutput, Producer, Token
from headrace.groups.group import Group
from headrace.groups.request import GroupReply, GroupRequest


@dataclass(slots=True, kw_only=True)
class GroupEvent:
    """A request, a timer or a sweep that is being handled.

    Attributes:
        group_id: the group to look at again if the records cannot be written.
        request: what to refuse in that case; None when no client waits.
        out: the records to append and the replies to release.
        groups: each changed group as it will be; None deletes it.
        producer: whose transaction the records belong to.
        checked: topics whose offsets were compared with the cluster's store; fetches of them are
            served again.
    """

    group_id: str | None = None
    request: GroupRequest[GroupReply] | None = None
    token: Token | None = None
    out: GroupOutput = field(default_factory=GroupOutput)
    groups: dict[str, Group | None] = field(default_factory=dict)
    producer: Producer | None = None
    checked: Collection[str] = ()
