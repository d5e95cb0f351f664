"""What requests that are still arriving may hold together."""

from headrace.broker.network.partial_requests import PartialRequests


class Sender:
    def __init__(self, partial_requests: PartialRequests) -> None:
        self.partial_requests = partial_requests
        self.dropped: list[str] = []

    def drop(self, reason: str) -> None:
        self.dropped.append(reason)
        self.partial_requests.note(self, 0)  # as a connection does when it closes


def test_below_the_limit_every_request_may_arrive() -> None:
    partial = PartialRequests(100)
    one, two = Sender(partial), Sender(partial)

    partial.note(one, 60)
    partial.note(two, 40)

    assert not one.dropped
    assert not two.dropped
    assert partial.total_bytes == 100


def test_past_the_limit_the_sender_that_began_first_is_dropped() -> None:
    partial = PartialRequests(100)
    one, two, three = (Sender(partial) for _ in range(3))
    partial.note(one, 10)
    partial.note(two, 10)
    partial.note(one, 60)

    partial.note(three, 40)

    assert [len(sender.dropped) for sender in (one, two, three)] == [1, 0, 0]
    assert "queued.max.request.bytes" in one.dropped[0]
    assert partial.total_bytes == 50


def test_a_finished_request_holds_nothing() -> None:
    partial = PartialRequests(100)
    one, two = Sender(partial), Sender(partial)
    partial.note(one, 90)

    partial.note(one, 0)
    partial.note(two, 90)

    assert not two.dropped
    assert partial.total_bytes == 90
