from headrace.groups.timer_queue import TimerQueue


def test_earliest_comes_first_and_not_before_its_time() -> None:
    timers = TimerQueue()
    timers.set("a", 20)
    timers.set("b", 10)

    assert timers.deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(25) == "b"
    assert timers.pop_due(25) == "a"
    assert timers.pop_due(25) is None
    assert timers.deadline_ms() is None


def test_earlier_deadline_replaces_a_later_one() -> None:
    timers = TimerQueue()
    timers.set("a", 20)
    timers.set("a", 10)

    assert timers.pop_due(10) == "a"
    assert timers.pop_due(20) is None


def test_later_deadline_does_not_grow_the_queue() -> None:
    timers = TimerQueue()
    for deadline_ms in range(10, 1_000):
        timers.set("a", deadline_ms)

    assert timers.deadline_ms() == 10
    assert len(timers._heap) == 1


def test_no_deadline_asks_for_nothing() -> None:
    timers = TimerQueue()
    timers.set("a", None)

    assert timers.deadline_ms() is None
