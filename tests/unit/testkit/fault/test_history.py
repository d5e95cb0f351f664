"""The checker finds what it is there to find."""

import pytest

from testkit.fault.history import History, LogPosition


def final(*values):
    return [(value, LogPosition(0, offset)) for offset, value in enumerate(values)]


def kinds(history, log):
    return {anomaly.kind for anomaly in history.check(log)}


def test_a_history_without_fault_passes():
    history = History()
    for offset, value in enumerate("abc"):
        history.acknowledge(value, 0, offset)
        history.poll("reader", value, 0, offset)

    assert history.check(final("a", "b", "c")) == []


@pytest.mark.parametrize(
    ("kind", "record", "log"),
    [
        ("lost write", lambda h: h.acknowledge("b", 0, 1), final("a")),
        ("inconsistent offset", lambda h: h.acknowledge("a", 0, 1), final("a", "b")),
        ("inconsistent offset", lambda h: h.poll("r", "x", 0, 0), final("a")),
        ("duplicate", lambda h: None, final("a", "a")),
        ("aborted read", lambda h: h.abort(["a"]), final("a")),
        (
            "non-monotonic poll",
            lambda h: [h.poll("r", "b", 0, 1), h.poll("r", "a", 0, 0)],
            final("a", "b"),
        ),
        ("undelivered", lambda h: h.deliver("g", "a", 0, 0), final("a", "b")),
        ("aborted read", lambda h: [h.abort(["b"]), h.deliver("g", "b", 0, 1)], final("a")),
        ("lost write", lambda h: [h.acknowledge("x", 0, None)], final("a", "b", "c")),
        (
            "unseen",
            lambda h: [h.poll("r", "a", 0, 0), h.poll("r", "c", 0, 2)],
            final("a", "b", "c"),
        ),
    ],
)
def test_each_fault_is_found(kind, record, log):
    history = History()

    record(history)

    assert kind in kinds(history, log)
