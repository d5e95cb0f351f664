"""How long a classic group waits for its members to join."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPhase:
    """One join phase; never changed in place, since a group and its draft share it.

    A phase ends when all members have joined, or at its deadline. Only the *initial* one, of an
    Empty group, always lasts until its deadline, and late comers prolong it (KIP-134).

    Attributes:
        extension_ms: by how much late comers may still prolong an initial phase, all together.
        has_late_comer: a member has joined since the deadline was last set.
    """

    deadline_ms: int
    is_initial: bool = False
    extension_ms: int = 0
    has_late_comer: bool = False

    @classmethod
    def initial(cls, now_ms: int, delay_ms: int, limit_ms: int) -> "JoinPhase":
        """Begin the first phase of an Empty group, which lasts `limit_ms` at most."""
        delay_ms = min(delay_ms, limit_ms)
        return cls(deadline_ms=now_ms + delay_ms, is_initial=True, extension_ms=limit_ms - delay_ms)

    def with_late_comer(self) -> "JoinPhase":
        """Return the phase after one more member has joined."""
        return replace(self, has_late_comer=True) if self.is_initial else self

    def prolonged(self, now_ms: int, delay_ms: int) -> "JoinPhase | None":
        """Return what follows a deadline that has passed: a later one, or None to end the phase."""
        if not (self.is_initial and self.has_late_comer and self.extension_ms > 0):
            return None
        delay_ms = min(delay_ms, self.extension_ms)
        return JoinPhase(
            deadline_ms=now_ms + delay_ms,
            is_initial=True,
            extension_ms=self.extension_ms - delay_ms,
        )
