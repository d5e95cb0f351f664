"""The members of a classic group, under their member ids and their instance ids."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from headrace.groups.classic.member import ClassicMember, common_protocols, select_protocol
from headrace.groups.classic.message import JoinedMember, JoinRequest
from headrace.groups.classic_subscription import subscribed_topics
from headrace.groups.error import GroupError, Refusal


class Roster:
    """The members of one group.

    Invariant: `static` has an entry for each member with an instance id, and no other.

    Attributes:
        members: by member id, in the order in which they joined.
        static: the member id of each instance id (KIP-345).
        pending: ids given out to members that have not joined yet (KIP-394), with their deadlines.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}
        self.pending: dict[str, int] = {}

    def draft(self) -> "Roster":
        """Return a copy to work on; members are immutable, so it costs one dict entry each."""
        copy = Roster(self.group_id)
        copy.members = dict(self.members)
        copy.static = dict(self.static)
        copy.pending = dict(self.pending)
        return copy

    # Changes.

    def add(self, member: ClassicMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def replace_static(self, old_id: str, member: ClassicMember) -> None:
        """Put a static member that came back under a new member id in the old one's place."""
        assert member.instance_id is not None
        self.members = {
            (member.member_id if known_id == old_id else known_id): (
                member if known_id == old_id else known
            )
            for known_id, known in self.members.items()
        }
        self.static[member.instance_id] = member.member_id

    def remove(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)

    def touch(self, member: ClassicMember, now_ms: int) -> None:
        """Store the member with a new session; not in its first join phase, which has a limit."""
        if not member.is_new:
            member = replace(member, deadline_ms=now_ms + member.session_timeout_ms)
        self.members[member.member_id] = member

    # What the members say together.

    def joined(self) -> list[ClassicMember]:
        """Return the members whose JoinGroup is parked."""
        return [member for member in self.members.values() if member.joining is not None]

    @property
    def all_joined(self) -> bool:
        """Whether the join phase need not wait any longer."""
        return not self.pending and all(
            member.joining is not None for member in self.members.values()
        )

    def select_protocol(self) -> str:
        return select_protocol(self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """Return at least a millisecond, so that a deadline set now is not due now."""
        return max((1, *(member.rebalance_timeout_ms for member in self.members.values())))

    def subscribed_topics(self, protocol: str | None) -> frozenset[str] | None:
        """Return the topics that the members read, or None when that cannot be known."""
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(protocol))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def as_joined(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """Return what the leader gets to see of the members."""
        return tuple(member.joined(protocol) for member in self.members.values())

    def deadlines_ms(self) -> Iterable[int | None]:
        """Return when sessions and the time of pending ids end."""
        return [*(member.expires_ms for member in self.members.values()), *self.pending.values()]

    # Checks. Each raises `Refusal`.

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member, which must be the current one of its instance."""
        if instance_id is not None and self.static.get(instance_id, member_id) != member_id:
            raise Refusal(
                GroupError.FENCED_INSTANCE_ID,
                f"instance {instance_id} of group {self.group_id} is now another member",
            )
        member = self.members.get(member_id)
        if member is None or (instance_id is not None and instance_id not in self.static):
            raise Refusal(
                GroupError.UNKNOWN_MEMBER_ID,
                f"{member_id!r} is not a member of group {self.group_id}",
            )
        return member

    def check_protocols(self, request: JoinRequest, protocol_type: str | None) -> None:
        """Refuse a member that shares no protocol with all the others."""
        offered = frozenset(item.name for item in request.protocols)
        others = [
            member
            for member in self.members.values()
            if member.member_id != request.member_id
            and (request.instance_id is None or member.instance_id != request.instance_id)
        ]
        fits = bool(request.protocol_type) and bool(offered)
        if others:
            fits = request.protocol_type == protocol_type and bool(
                offered & common_protocols(others)
            )
        if not fits:
            raise Refusal(
                GroupError.INCONSISTENT_GROUP_PROTOCOL,
                f"a member of group {self.group_id} must offer a protocol that all members share",
            )

    def check_size(self, member_id: str, limit: int, *, joining: bool) -> None:
        """Refuse one member more than `limit`; in a join phase only joined members count."""
        counted: Collection[ClassicMember] = self.joined() if joining else self.members.values()
        known = any(member.member_id == member_id for member in counted)
        if not known and len(counted) >= limit:
            raise Refusal(
                GroupError.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id} has its {limit} members",
            )
