"""What became of a topic's landing, as a text beside its committed offsets."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

GROUP: Final = "headrace-land"
"""The group that has the offsets of landed topics. The tables' own offsets decide: these only show
how far they are."""

_VERSION: Final = 1
# Brokers take 4096 bytes of metadata, by default, and names take some.
_MOST_BYTES: Final = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingStatus:
    """How a topic's table is.

    Attributes:
        rows: of the table; None while it does not exist.
        dead_letters: records that were no rows, since the process has started.
        landed_ms: when the last commit was made; None before the first of this process.
        complete_ms: when the table had every record that the topic had then; None before that.
        problem: why it does not land now.
        seen_ms: when this was reported.
    """

    table: str
    rows: int | None = None
    dead_letters: int = 0
    landed_ms: int | None = None
    complete_ms: int | None = None
    problem: str | None = None
    seen_ms: int = 0

    def as_text(self) -> str:
        """Return the text. Long sentences are cut: brokers limit it."""
        shown = self
        if self.problem is not None:
            cut = self.problem.encode(errors="replace")[:_MOST_BYTES]
            shown = replace(self, problem=cut.decode(errors="ignore"))
        return json.dumps(
            {"version": _VERSION, **asdict(shown)}, separators=(",", ":"), ensure_ascii=False
        )

    @classmethod
    def of(cls, text: str) -> "LandingStatus | None":
        """Return the status of a text; None if it is none. Anyone who may commit offsets of the
        group can write such a text: all fields are checked."""
        try:
            found = json.loads(text)
            if not isinstance(found, dict) or found.pop("version", None) != _VERSION:
                return None
            status = cls(**found)
        except (ValueError, TypeError, RecursionError):
            return None
        return status if status._is_sound() else None

    def _is_sound(self) -> bool:
        numbers = (self.rows, self.landed_ms, self.complete_ms, self.dead_letters, self.seen_ms)
        return (
            isinstance(self.table, str)
            and isinstance(self.problem, str | None)
            and None not in (self.dead_letters, self.seen_ms)
            and all(each is None or (type(each) is int and 0 <= each < 2**63) for each in numbers)
        )
