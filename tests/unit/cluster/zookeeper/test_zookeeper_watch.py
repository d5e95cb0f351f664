"""When a broker that is cut off from ZooKeeper knows it, whatever else its watch has to do."""

import time
from collections.abc import Callable, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooState
from kazoo.handlers.threading import KazooTimeoutError

from headrace.cluster.zookeeper.zookeeper_watch import ZooKeeperWatch
from headrace.testing.readiness import wait_until

SESSION_SECONDS = 0.2


class Answer:
    """One that is there, or one that never comes; `in_vain` gets the waits for it."""

    def __init__(self, value: Any, in_vain: list[float], *, comes: bool) -> None:
        self._value, self._in_vain, self._comes = value, in_vain, comes

    def get(self, timeout: float) -> Any:
        if not self._comes:
            self._in_vain.append(timeout)
            time.sleep(timeout)
            raise KazooTimeoutError
        return self._value


class Ensemble:
    """What a `KazooClient` shows of one kind with many nodes, connected or cut off."""

    def __init__(self, names: list[str]) -> None:
        self.connected = True
        self.reads = 0
        self.unanswered = 0
        self.in_vain: list[float] = []
        self.busy = False
        self._names = names
        self._listener: Callable[[str], object] = lambda _: None
        self._watches: dict[str, Callable[[Any], object]] = {}

    def add_listener(self, listener: Callable[[str], object]) -> None:
        self._listener = listener

    def remove_listener(self, listener: Callable[[str], object]) -> None:
        self._listener = lambda _: None

    def get_children_async(self, path: str, watch: Callable[[Any], object]) -> Answer:
        self._watches[path] = watch
        comes = self.connected and not self.unanswered
        self.unanswered = max(0, self.unanswered - 1)
        return Answer(list(self._names), self.in_vain, comes=comes)

    def get_async(self, path: str, watch: Callable[[Any], object]) -> Answer:
        self.reads += 1
        self._watches[path] = watch
        stat = SimpleNamespace(mzxid=self.reads, version=0, ephemeralOwner=0)
        if self.busy:  # it changes again as soon as it is read
            watch(SimpleNamespace(path=path))
        return Answer((b"", stat), self.in_vain, comes=self.connected)

    def fire_all(self) -> None:
        """Let every node change."""
        for path, watch in list(self._watches.items()):
            watch(SimpleNamespace(path=path))

    def cut(self) -> None:
        self.connected = False
        self._listener(KazooState.SUSPENDED)

    def heal(self) -> None:
        self.connected = True
        self._listener(KazooState.CONNECTED)


class Watched:
    """A watch of 30 topics, and what it has reported."""

    def __init__(self) -> None:
        self.ensemble = Ensemble([f"t{each}" for each in range(30)])
        client: Any = self.ensemble
        self.watch = ZooKeeperWatch(client, SESSION_SECONDS, lambda kind: None)
        self.alive: list[bool] = []
        self.changed: list[str] = []
        self.watch.watch_session(self.alive.append)
        self.watch.add("topics", lambda path, node: self.changed.append(path))


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.watch.stop()


def test_many_changes_just_before_a_cut_do_not_hide_it(watched: Watched) -> None:
    """Each of them waits for the session's time, one after the other."""
    watched.ensemble.connected = False
    watched.ensemble.fire_all()
    watched.ensemble.cut()

    wait_until(lambda: watched.alive == [False], what="the end of the session")

    assert len(watched.ensemble.in_vain) < 10


def test_many_changes_are_asked_for_before_the_first_answer_is_awaited(watched: Watched) -> None:
    reading, held = Event(), Event()
    asked: list[int] = []
    compare = watched.watch._compare

    def compared(path: str, answer: Any, *, quiet: bool = False) -> None:
        asked.append(watched.ensemble.reads)
        compare(path, answer, quiet=quiet)

    def hold() -> None:
        reading.set()
        held.wait(90)

    watched.watch._work.put(hold)
    assert reading.wait(90)
    before = watched.ensemble.reads
    watched.watch._compare = compared  # type: ignore[method-assign]
    for _ in range(2):  # a change that was not read yet is read once
        watched.ensemble.fire_all()
    held.set()

    wait_until(lambda: len(watched.changed) == 30, what="all changes")
    assert asked == [before + 30] * 30


def test_nothing_is_read_while_it_is_cut_off_and_everything_after(watched: Watched) -> None:
    watched.ensemble.cut()
    wait_until(lambda: watched.alive == [False], what="the end of the session")
    before = watched.ensemble.reads
    watched.ensemble.fire_all()
    watched.watch.shown(["/topics/new"])
    assert watched.changed == []

    watched.ensemble.heal()

    wait_until(lambda: watched.alive == [False, True], what="a session again")
    assert watched.ensemble.reads == before + 30
    assert "/topics/new" in watched.changed, "it is not there: its end is reported"


def test_a_cut_that_heals_in_time_ends_no_session(watched: Watched) -> None:
    reading, healed = Event(), Event()

    def hold() -> None:
        reading.set()
        healed.wait(90)

    # Between the two this thread may be late for longer than a session.
    watched.watch._work.put(hold)
    assert reading.wait(90)
    watched.ensemble.cut()
    watched.ensemble.heal()
    healed.set()
    wait_until(lambda: len(watched.changed) == 30, what="everything read again")

    assert watched.alive == []


def test_changes_that_never_end_do_not_keep_a_session_from_being_reported(
    watched: Watched,
) -> None:
    watched.ensemble.cut()
    wait_until(lambda: watched.alive == [False], what="the end of the session")
    watched.ensemble.busy = True
    watched.ensemble.unanswered = 1
    watched.ensemble.heal()
    watched.ensemble.fire_all()

    wait_until(lambda: watched.alive == [False, True], what="a session again")
    watched.ensemble.busy = False


def test_a_break_after_the_news_of_a_connection_counts(watched: Watched) -> None:
    """The news wait in a queue; the connection has broken again when they are read."""
    reading = Event()
    held = Event()

    def hold() -> None:
        reading.set()
        held.wait(90)

    watched.watch._work.put(hold)
    reading.wait(90)
    watched.ensemble.cut()
    watched.ensemble.heal()
    watched.ensemble.cut()
    cut_at = time.monotonic()
    watched.ensemble.connected = True  # as it looks in the moment in which the news are read
    held.set()
    wait_until(watched.watch._work.empty, what="all news read")
    watched.watch.stop()

    assert watched.watch._suspended_at is not None
    assert watched.watch._suspended_at <= cut_at


def test_a_break_while_everything_is_read_reports_no_session(watched: Watched) -> None:
    """The kinds behind the break are not read, and no answer is missing to say so."""
    cuts: list[str] = []

    def cut_once(path: str, node: object) -> None:
        if watched.ensemble.connected and watched.alive and not cuts:
            cuts.append(path)
            watched.ensemble.cut()

    watched.watch.add("topics", cut_once)
    watched.watch.add("brokers", lambda path, node: None)
    watched.ensemble.cut()
    wait_until(lambda: watched.alive == [False], what="the end of the session")
    watched.ensemble.heal()
    wait_until(lambda: bool(cuts) and watched.watch._work.empty(), what="the next break")
    assert watched.alive == [False]

    watched.ensemble.heal()

    wait_until(lambda: watched.alive == [False, True], what="a session again")
