"""What requests that are still arriving may hold together."""

from headrace.broker.network.partial_requests import UnfinishedRequests


class Sender:
    def __init__(self, unfinished: UnfinishedRequests) -> None:
        self.unfinished = unfinished
        self.given_up: list[str] = []

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)
        self.unfinished.note(self, 0)  # as a connection does when it closes


def test_below_the_limit_everybody_may_go_on() -> None:
    unfinished = UnfinishedRequests(100)
    one, two = Sender(unfinished), Sender(unfinished)

    unfinished.note(one, 60)
    unfinished.note(two, 40)

    assert not one.given_up
    assert not two.given_up
    assert unfinished.total_bytes == 100


def test_past_the_limit_the_request_that_began_first_is_given_up() -> None:
    unfinished = UnfinishedRequests(100)
    one, two, three = (Sender(unfinished) for _ in range(3))
    unfinished.note(one, 10)
    unfinished.note(two, 10)
    unfinished.note(one, 60)

    unfinished.note(three, 40)

    assert [len(sender.given_up) for sender in (one, two, three)] == [1, 0, 0]
    assert "queued.max.request.bytes" in one.given_up[0]
    assert unfinished.total_bytes == 50


def test_a_finished_request_holds_nothing() -> None:
    unfinished = UnfinishedRequests(100)
    one, two = Sender(unfinished), Sender(unfinished)
    unfinished.note(one, 90)

    unfinished.note(one, 0)
    unfinished.note(two, 90)

    assert not two.given_up
    assert unfinished.total_bytes == 90
