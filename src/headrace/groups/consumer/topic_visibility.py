"""Which of the topics that a regular expression matches each member of a KIP-848 group may see.

A client that names a topic is checked for the right to DESCRIBE it when its request comes in. A
regular expression names none, so its matches are checked here, for each member by itself: one with
fewer rights gets fewer topics, and takes none from the others.

Rule 1: nothing here is durable. Rights are known from a member's first heartbeat on; until then, as
        after a reload, a member keeps the topics that the durable resolution gave it. No reply
        goes out in between, since a reply answers a heartbeat.
Rule 2: without an authorizer there are no rights, and every member sees every topic.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from headrace.groups.record import MemberMetadata, ResolvedRegex
from headrace.groups.topic import TopicRights

NOTHING_HIDDEN: frozenset[str] = frozenset()


class TopicVisibility:
    """The rights of one group's members, and what they hide. Not for several threads."""

    def __init__(self) -> None:
        self._rights: dict[str, TopicRights] = {}
        self._hidden: dict[str, frozenset[str]] = {}
        # What was decided at one version of the rights: a new topic costs one decision, not all.
        self._decided: dict[tuple[TopicRights, str], dict[str, bool]] = {}
        self._version: int | None = None

    def copy(self) -> "TopicVisibility":
        copy = TopicVisibility()
        copy._rights = dict(self._rights)
        copy._hidden = dict(self._hidden)
        copy._decided = dict(self._decided)
        copy._version = self._version
        return copy

    def store(self, member_id: str, rights: TopicRights | None) -> bool:
        """Store the rights of a member's heartbeat, and return whether they are other ones."""
        if self._rights.get(member_id) == rights:
            return False
        if rights is None:
            self.forget(member_id)
        else:
            self._rights[member_id] = rights
        return True

    def forget(self, member_id: str) -> None:
        self._rights.pop(member_id, None)
        self._hidden.pop(member_id, None)

    def hidden_from(self, member_id: str) -> frozenset[str]:
        """Return the matches of the member's regular expression that it must not see."""
        return self._hidden.get(member_id, NOTHING_HIDDEN)

    def visible(
        self,
        regex: str,
        matches: Sequence[str],
        readers: Iterable[str],
        known: ResolvedRegex | None,
    ) -> tuple[str, ...]:
        """Return the matches that at least one of the readers may see.

        Args:
            readers: the members that subscribe by the expression.
            known: what it stood for; a reader whose rights are not known yet keeps that.
        """
        seen: set[str] = set()
        for rights in {self._rights.get(member_id) for member_id in readers}:
            if rights is not None:
                seen.update(
                    name for name, may in self._decide(rights, regex, matches).items() if may
                )
            elif known is not None:
                seen.update(known.topics)
        return tuple(name for name in matches if name in seen)

    def _decide(self, rights: TopicRights, regex: str, names: Sequence[str]) -> dict[str, bool]:
        if rights.version != self._version:
            self._decided.clear()
            self._version = rights.version
        last = self._decided.get((rights, regex), {})
        decided = {
            name: last[name] if name in last else rights.may_describe(name) for name in names
        }
        self._decided[rights, regex] = decided
        return decided

    def hide(
        self,
        members: Mapping[str, MemberMetadata],
        regexes: Mapping[str, ResolvedRegex],
        touched: Collection[str] | None = None,
    ) -> set[str]:
        """Compute again what is hidden from each member; return those for which it has changed.

        Call it after `visible` for each expression.

        Args:
            touched: the expressions whose members to look at, "" for none; all without it.
        """
        hidden: dict[tuple[TopicRights, str], frozenset[str]] = {}
        in_use: set[tuple[TopicRights, str]] = set()
        changed = set()
        for member_id, rights in self._rights.items():
            regex = members[member_id].subscribed_topic_regex or ""
            in_use.add((rights, regex))
            if touched is not None and regex not in touched:
                continue
            resolved = regexes.get(regex)
            if (rights, regex) not in hidden:
                may = self._decided.get((rights, regex), {})
                names = () if resolved is None else resolved.topics
                hidden[rights, regex] = frozenset(name for name in names if not may.get(name))
            if hidden[rights, regex] != self.hidden_from(member_id):
                changed.add(member_id)
            self._hidden[member_id] = hidden[rights, regex]
        for unused in self._decided.keys() - in_use:
            del self._decided[unused]
        return changed
