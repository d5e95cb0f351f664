"""One topic between its turns: when it is due, how far its table is, and what went wrong."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.landing.committer import Landed
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.landing_status import LandingStatus
from headrace.landing.error import AnotherLanding
from headrace.model.ids import TopicPartition

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 300.0
# Two processes that land one topic would take it from each other all the time.
_OTHER_PAUSE: Final = 30.0


@dataclass(slots=True)
class Totals:
    """What this process has landed of a topic, whatever was configured meanwhile."""

    rows: int = 0
    dead_letters: int = 0
    commits: int = 0
    failures: int = 0


class TopicLanding:
    """The state of one configured topic.

    Threads: the process's main thread, and during a turn the turn's, which only sets `alive_at`,
    `stopped`, `landed_ms` and `current`.

    Attributes:
        offsets: where the table continues, by partition; None while that is not known.
        due_at: when to look at it next, in seconds of the monotonic clock.
        lag: how many offsets the table lacks; None while that is not known.
        rows: of the table; None while there is none.
        running: whether a turn is under way.
        cancelled: the turn under way is to end: its topic is gone, or configured differently.
        alive_at: when the turn under way last moved.
        stopped: whether the turn under way was ended before the topic did.
        done: whether the topic was landed once up to its end, or failed.
        ends: where the topic ended when the turn under way began.
        current: what the turn under way has committed.
    """

    def __init__(self, configured: ConfiguredTopic, totals: Totals) -> None:
        self.configured = configured
        self.totals = totals
        self.offsets: Mapping[int, int] | None = None
        self.due_at = time.monotonic()
        self.lag: int | None = None
        self.rows: int | None = None
        self.landed_ms: int | None = None
        self.complete_ms: int | None = None
        self.problem: str | None = None
        self.running = self.cancelled = self.stopped = self.done = False
        self.began_at = self.alive_at = 0.0
        self.ends: Mapping[int, int] = {}
        self.current: Landed | None = None
        self._looked_ms = 0
        self._pause = 0.0

    def __str__(self) -> str:
        return f"{self.configured.name} -> {self.configured.table.name}"

    @property
    def partitions(self) -> list[TopicPartition]:
        """The topic's partitions."""
        return [TopicPartition(self.configured.name, each) for each in self.configured.partitions]

    def look(self, ends: Mapping[int, int], now_ms: int) -> bool:
        """Take where the topic ends now, and return whether a turn would change something.

        An end before the table's offsets is work too: the turn says that the topic was truncated.
        """
        self.ends, self._looked_ms = ends, now_ms
        offsets = self.offsets
        if offsets is None:
            self.lag = None
            return True
        self.lag = sum(max(0, end - offsets.get(each, 0)) for each, end in ends.items())
        if self.problem is not None or any(
            offsets.get(each, 0) != end for each, end in ends.items()
        ):
            return True
        self._complete()
        return False

    def begin(self) -> None:
        """Note that a turn begins, after `look`."""
        self.running, self.cancelled, self.stopped, self.current = True, False, False, None
        self.began_at = self.alive_at = time.monotonic()

    def commit(self, landed: Landed, now_ms: int) -> None:
        """Note a commit of the turn under way, in its thread."""
        self.current = replace(landed)
        self.landed_ms = now_ms
        self.alive_at = time.monotonic()

    def succeed(self, landed: Landed, rows: int | None) -> bool:
        """Note what a turn has reached. Return whether the turn before it had failed."""
        self._end_turn()
        recovered = self.problem is not None
        self.problem, self._pause, self.rows = None, 0.0, rows
        offsets = landed.offsets
        if offsets is None and not self.stopped:
            # There is no table: nothing was visible up to the ends.
            offsets = self.ends
        self.offsets = None if offsets is None else dict(offsets)
        self.due_at = time.monotonic()
        if self.offsets is not None:
            have = self.offsets
            self.lag = sum(max(0, end - have.get(each, 0)) for each, end in self.ends.items())
            if self.lag == 0:
                self._complete()
        return recovered

    def fail(self, sentence: str, error: BaseException | None = None) -> float:
        """Note why a turn failed, and return after how many seconds it is tried again."""
        self._end_turn()
        self.problem, self.done = sentence, True
        self.totals.failures += 1
        first = _OTHER_PAUSE if isinstance(error, AnotherLanding) else _FIRST_PAUSE
        self._pause = min(max(2 * self._pause, first), _LONGEST_PAUSE)
        self.due_at = time.monotonic() + self._pause
        return self._pause

    def counts(self) -> Totals:
        """Return what was landed, with the turn under way."""
        now, totals = self.current or Landed(), self.totals
        return replace(
            totals,
            rows=totals.rows + now.rows,
            dead_letters=totals.dead_letters + now.dead_letters,
            commits=totals.commits + now.commits,
        )

    def known_offsets(self) -> Mapping[int, int] | None:
        """Return where the table continues, as far as this process knows."""
        now = self.current
        return self.offsets if now is None or now.offsets is None else now.offsets

    def status(self, now_ms: int) -> LandingStatus:
        """Return what the console shows."""
        return LandingStatus(
            table=str(self.configured.table.name),
            rows=self.rows,
            dead_letters=self.counts().dead_letters,
            landed_ms=self.landed_ms,
            complete_ms=self.complete_ms,
            problem=self.problem,
            seen_ms=now_ms,
        )

    def _end_turn(self) -> None:
        if self.current is not None:
            offsets = self.current.offsets
            counted, self.current = self.counts(), None
            self.totals.rows, self.totals.commits = counted.rows, counted.commits
            self.totals.dead_letters = counted.dead_letters
            self.offsets = self.offsets if offsets is None else dict(offsets)
        self.running = False

    def _complete(self) -> None:
        """The table has all records: look again when the next ones may have waited long enough."""
        self.complete_ms, self.done = self._looked_ms, True
        self.due_at = time.monotonic() + self.configured.table.freshness_ms / 1000
