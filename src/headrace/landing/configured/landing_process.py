"""Lands every configured topic, a few at a time.

Rule 1: a topic lands in turns. A turn begins where the table's offsets are and ends where the topic
ends, so a crash, a stop or a failure in between costs nothing and doubles nothing.
Rule 2: only topics with new records get a turn, and only `workers` of them at once: memory and
threads grow with the workers, not with the topics.
Rule 3: a topic that fails is tried again later and later. It delays no other: a turn that hangs
gives its place to another one, and a long one ends after a while if others wait.
Rule 4: a topic has one turn at a time. If its configuration has changed, that turn ends first.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LATEST, FoundOffset, list_offsets
from headrace.landing.configured.configured_topic import ConfiguredTopics, configured_topics
from headrace.landing.configured.figures import readings
from headrace.landing.configured.status_group import StatusGroup
from headrace.landing.configured.topic_landing import TopicLanding, Totals
from headrace.landing.configured.turn import TurnResult, TurnSettings, take_turn
from headrace.landing.error import LandingError, without_login
from headrace.model.clock import SystemClock
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.telemetry.reading import Reading
from headrace.wire.error_code import ErrorCode

Say = Callable[[str], None]
_TICK_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 2.0
_PUBLISH_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 30.0
_STUCK_SECONDS: Final = 120.0
# The main thread must come round: a leader that is away for longer is asked for again later.
_ASK_MS: Final = 5_000
_MOST_LOOKED: Final = 500
_LONGEST_PAUSE: Final = 30.0
_GONE: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id})


class LandingProcess:
    """All configured topics of a cluster.

    Args:
        workers: how many topics land at once.
        follow: go on until stopped; otherwise land every topic once, up to its end.
        say, warn: called with a sentence: what happens, and what went wrong.

    Example:
        LandingProcess(settings, workers=2, say=print, warn=print).run(lambda: False)
    """

    def __init__(
        self,
        settings: TurnSettings,
        *,
        workers: int = 2,
        follow: bool = True,
        say: Say = lambda sentence: None,
        warn: Say = lambda sentence: None,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._follow = follow
        self._say, self._warn = say, warn
        self._clock = SystemClock()
        asked = settings.client
        self._ask_settings = replace(asked, api_timeout_ms=min(asked.api_timeout_ms, _ASK_MS))
        self._landings: dict[str, TopicLanding] = {}
        self._status = StatusGroup(warn)
        self._finished: SimpleQueue[tuple[TopicLanding, TurnResult | Exception]] = SimpleQueue()
        self._wake = Event()
        self._ending = False
        self._crowded = False
        self._look_at = self._publish_at = self._ask_at = 0.0
        self._pause = 0.0
        self._refused: dict[str, str] = {}
        self._problem: str | None = None
        self._failed = False

    def readings(self) -> list[Reading]:
        """Return the metrics of all topics; called once per scrape, in the endpoint's thread."""
        return readings(lambda: list(self._landings.values()))

    def run(self, stopped: Callable[[], bool]) -> bool:
        """Land until stopped, and return whether all went well at last.

        Raises:
            ClientError: the cluster cannot be reached at the start; later it is waited for.
            LandingError: its brokers know no configuration of tables, at the start; later a broker
                may be an older one for a while.
        """
        with ConnectionPool(self._ask_settings) as pool:
            self._look(pool)
            try:
                while not stopped() and not (not self._follow and self._is_done()):
                    self._step(pool)
                    self._wake.wait(_TICK_SECONDS)
                    self._wake.clear()
            finally:
                self._ending = True
                self._end(pool)
        return not self._failed and all(each.problem is None for each in self._landings.values())

    def _step(self, pool: ConnectionPool) -> None:
        self._collect()
        now = time.monotonic()
        if now < self._ask_at:
            return
        try:
            if now >= self._look_at:
                self._look(pool)
            self._start_due(pool)
            if now >= self._publish_at:
                self._publish_at = now + _PUBLISH_SECONDS
                self._status.publish(pool, self._landings.values(), self._clock.wall_ms())
            self._problem, self._pause = None, 0.0
        except (ClientError, LandingError) as error:
            self._pause = min(max(2 * self._pause, 1.0), _LONGEST_PAUSE)
            self._ask_at = time.monotonic() + self._pause
            if str(error) != self._problem:
                self._problem = str(error)
                self._warn(f"the cluster cannot be asked: {error}; tried again until it answers")

    def _end(self, pool: ConnectionPool) -> None:
        """Let turns commit what they have read."""
        while any(each.running for each in self._landings.values()):
            self._collect()
            self._wake.wait(_TICK_SECONDS)
            self._wake.clear()
        self._status.publish(pool, self._landings.values(), self._clock.wall_ms())

    def _is_done(self) -> bool:
        return all(each.done and not each.running for each in self._landings.values())

    # -- which topics land

    def _look(self, pool: ConnectionPool) -> None:
        """Find topics that were configured, configured differently, created again or deleted."""
        began = time.monotonic()
        found = configured_topics(pool)
        for name, landing in list(self._landings.items()):
            if name in found.unread or landing.configured == found.topics.get(name):
                if name in found.topics:
                    landing.configured = found.topics[name]  # it may have more partitions
            elif landing.running:
                landing.cancelled = True
            else:
                self._replace_or_end(pool, landing, found)
        for name, topic in found.topics.items():
            if name not in self._landings:
                self._landings[name] = TopicLanding(topic, Totals())
                self._say(f"{self._landings[name]}: landing begins")
        for name, problem in found.problems.items():
            if self._refused.get(name) != problem:
                self._warn(f"{name} does not land: {problem}")
        self._refused = found.problems
        self._failed = bool(found.problems)
        took = time.monotonic() - began
        self._look_at = time.monotonic() + max(_LOOK_SECONDS, 10 * took)

    def _replace_or_end(
        self, pool: ConnectionPool, landing: TopicLanding, found: ConfiguredTopics
    ) -> None:
        name = landing.configured.name
        new = found.topics.get(name)
        if new is None:
            del self._landings[name]
            self._status.forget(pool, name, landing.partitions)
            self._say(f"{landing}: landing ends, because the topic is gone or names no table")
            return
        same = new.topic_id == landing.configured.topic_id
        totals = landing.totals if same else Totals()
        self._landings[name] = TopicLanding(new, totals)
        what = "its configuration has changed" if same else "the topic was created again"
        self._say(f"{self._landings[name]}: landing begins again, because {what}")

    # -- turns

    def _start_due(self, pool: ConnectionPool) -> None:
        now = time.monotonic()
        due = [
            each
            for each in self._landings.values()
            if not each.running and each.due_at <= now and (self._follow or not each.done)
        ]
        due.sort(key=lambda each: each.due_at)
        free = self._free(now)
        self._crowded = bool(due) and free <= 0
        if not due or free <= 0:
            return
        looked = due[:_MOST_LOOKED]
        now_ms = self._clock.wall_ms()
        ends = list_offsets(
            pool,
            {place: LATEST for each in looked for place in each.partitions},
            read_committed=True,
        )
        for landing in looked:
            known = self._ends_of(landing, ends)
            if known is None or not landing.look(known, now_ms):
                continue
            if free > 0:
                free -= 1
                self._start(landing)
            else:
                self._crowded = True

    def _ends_of(
        self, landing: TopicLanding, ends: Mapping[TopicPartition, FoundOffset | ClientError]
    ) -> dict[int, int] | None:
        """Return where a topic ends; None if that is not known, which is reported."""
        known: dict[int, int] = {}
        for place in landing.partitions:
            found = ends[place]
            if isinstance(found, FoundOffset):
                known[place.partition] = found.offset
                continue
            if isinstance(found, BrokerError) and found.code in _GONE:
                self._look_at = 0.0  # deleted: the next look finds that
                landing.due_at = time.monotonic() + 1.0
                return None
            self._fail(landing, f"{place} cannot be read: {found}", found)
            return None
        return known

    def _free(self, now: float) -> int:
        """Return how many turns may begin. One that hangs gives its place to another."""
        running = [each for each in self._landings.values() if each.running]
        stuck = sum(now - each.alive_at > _STUCK_SECONDS for each in running)
        return self._workers + min(stuck, self._workers) - len(running)

    def _start(self, landing: TopicLanding) -> None:
        landing.begin()
        name = f"land-{landing.configured.name[:50]}"
        Thread(target=self._turn, args=(landing,), name=name, daemon=True).start()

    def _turn(self, landing: TopicLanding) -> None:
        outcome: TurnResult | Exception
        try:
            outcome = take_turn(
                self._settings,
                landing.configured,
                stopped=lambda: self._must_stop(landing),
                committed=lambda landed: landing.commit(landed, self._clock.wall_ms()),
                lost=lambda sentence: self._warn(f"{landing}: {sentence}"),
            )
        except Exception as error:  # noqa: BLE001 - one table must not end the landing of others
            outcome = error
        self._finished.put((landing, outcome))
        self._wake.set()

    def _must_stop(self, landing: TopicLanding) -> bool:
        """Return whether a turn is to end, in its thread."""
        now = landing.alive_at = time.monotonic()
        long = self._crowded and now - landing.began_at > _TURN_SECONDS
        if not (self._ending or landing.cancelled or long):
            return False
        landing.stopped = True
        return True

    def _collect(self) -> None:
        """Take the results of turns that have ended."""
        while True:
            try:
                landing, outcome = self._finished.get_nowait()
            except Empty:
                return
            if landing.cancelled:
                self._look_at = 0.0
            if isinstance(outcome, TurnResult):
                rows = outcome.landed.rows
                if landing.succeed(outcome.landed, outcome.rows):
                    self._say(f"{landing}: landing works again")
                if rows:
                    self._say(f"{landing}: {rows} rows, {landing.rows} in all")
            else:
                self._fail(landing, _sentence(outcome), outcome)

    def _fail(self, landing: TopicLanding, sentence: str, error: Exception) -> None:
        sentence = " ".join(sentence.split())  # other libraries' may have several lines
        pause = landing.fail(sentence, error)
        again = f"; tried again in {pause:.0f} s" if self._follow else ""
        self._warn(f"{landing}: {sentence}{again}")


def _sentence(error: Exception) -> str:
    if isinstance(error, HeadraceError):
        return str(error)
    return f"it failed unexpectedly, with {type(error).__name__}: {without_login(str(error))}"
