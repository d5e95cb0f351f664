"""Requests wait for room in a budget of bytes."""

from threading import Thread

from headrace.ingest.network.byte_budget import ByteBudget


def test_a_request_waits_while_others_take_the_memory() -> None:
    budget = ByteBudget(100)
    order: list[str] = []

    def second() -> None:
        with budget.taken(60, 90) as fits:
            order.append(f"second {fits}")

    thread = Thread(target=second)
    with budget.taken(50) as fits:
        assert fits
        thread.start()
        with budget.taken(60) as at_once:
            order.append(f"at once {at_once}")
    thread.join(90)
    assert order == ["at once False", "second True"]
