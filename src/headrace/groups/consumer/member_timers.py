"""The deadlines of a KIP-848 group's members. None of them is durable."""


class MemberTimers:
    """By which time each member must do what. Not for several threads.

    Attributes:
        sessions: send the next request.
        revocations: give up the partitions that it must no longer have.
        joins_and_syncs: of a member that speaks the classic protocol: join again, or sync after it
            joined.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, int] = {}
        self.revocations: dict[str, int] = {}
        self.joins_and_syncs: dict[str, int] = {}

    def copy(self) -> "MemberTimers":
        copy = MemberTimers()
        copy.sessions = dict(self.sessions)
        copy.revocations = dict(self.revocations)
        copy.joins_and_syncs = dict(self.joins_and_syncs)
        return copy

    def forget(self, member_id: str) -> None:
        for deadlines in self._all():
            deadlines.pop(member_id, None)

    def deadline_ms(self) -> int | None:
        """Return the earliest deadline of all."""
        return min((due_ms for each in self._all() for due_ms in each.values()), default=None)

    def due(self, now_ms: int) -> list[str]:
        """Return the members that have missed a deadline, each once."""
        missed = (id_ for each in self._all() for id_, due_ms in each.items() if due_ms <= now_ms)
        return list(dict.fromkeys(missed))

    def _all(self) -> tuple[dict[str, int], ...]:
        return self.sessions, self.revocations, self.joins_and_syncs
