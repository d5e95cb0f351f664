"""A connection between a real pair of sockets: order, bounds, and what bad bytes do."""

import asyncio
import struct

from headrace.broker.network.connection import Answer, Parts
from headrace.model.error import PeerError
from testkit.sample.connection_peer import (
    OTHER,
    PRODUCE,
    ConnectionPeer,
    Futures,
    echo,
    framed,
    request,
    run,
)

# -- order


def test_produces_are_answered_in_the_order_they_came_whichever_is_ready_first() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1, PRODUCE) + request(2, PRODUCE) + request(3, PRODUCE))
        await peer.until(lambda: len(futures.all) == 3)
        futures.all[2].set_result((b"C",))
        futures.all[0].set_result((b"A",))
        assert await peer.receive(1) == b"A"
        futures.all[1].set_result((b"B",))
        assert await peer.receive(2) == b"BC"

    run(scenario)


def test_another_request_waits_until_the_one_before_it_is_answered() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1) + request(2))
        await peer.until(lambda: len(futures.all) == 1)
        await peer.settle()
        assert len(peer.asked) == 1
        futures.all[0].set_result((b"A",))
        await peer.until(lambda: len(futures.all) == 2)

    run(scenario)


def test_a_produce_does_not_overtake_what_waits_before_it() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1) + request(2, PRODUCE))
        await peer.settle()
        assert len(peer.asked) == 1

    run(scenario)


def test_a_request_without_an_answer_does_not_hold_up_the_next() -> None:
    async def scenario() -> None:
        peer = ConnectionPeer(lambda frame: None if frame == PRODUCE + b"1" else (frame,))
        await peer.send(request(1, PRODUCE) + request(2, PRODUCE))
        assert await peer.receive(3) == PRODUCE + b"2"

    run(scenario)


def test_ten_thousand_requests_in_one_go_are_all_answered_in_order() -> None:
    async def scenario() -> None:
        peer = ConnectionPeer(lambda frame: (framed(frame),))
        numbers = range(10_000)
        sending = asyncio.create_task(peer.send(b"".join(request(n) for n in numbers)))
        expected = b"".join(request(n) for n in numbers)
        assert await peer.receive(len(expected)) == expected
        await sending

    run(scenario)


# -- bounds


def test_one_turn_of_the_loop_starts_a_bounded_number_of_requests() -> None:
    async def scenario() -> None:
        peer = ConnectionPeer(lambda frame: None)
        peer.client.send(b"".join(request(n) for n in range(1000)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(peer.asked) <= 64
        await peer.until(lambda: len(peer.asked) == 1000)

    run(scenario)


def test_a_client_that_does_not_read_is_not_served_on() -> None:
    async def scenario() -> None:
        answer = b"x" * 50_000
        peer = ConnectionPeer(lambda frame: (answer,))
        peer.client.send(b"".join(request(n) for n in range(1000)))
        await peer.settle()
        before = len(peer.asked)
        await peer.settle()
        assert len(peer.asked) == before < 100
        assert len(await peer.receive(1000 * len(answer))) == 1000 * len(answer)

    run(scenario)


def test_only_so_many_produces_wait_for_their_answers_at_once() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures, max_pending=3)
        await peer.send(b"".join(request(n, PRODUCE) for n in range(10)))
        await peer.settle()
        assert len(futures.all) == 3
        futures.all[0].set_result(None)
        await peer.until(lambda: len(futures.all) == 4)

    run(scenario)


def test_only_so_many_bytes_of_produces_wait_for_their_answers_at_once() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures, max_request_bytes=4 << 20)
        body = PRODUCE + bytes(3 << 20)
        sending = asyncio.create_task(peer.send(framed(body) * 4))
        await peer.until(lambda: len(futures.all) == 2)
        await peer.settle()
        assert len(futures.all) == 2
        futures.all[0].set_result(None)
        await peer.until(lambda: len(futures.all) == 3)
        sending.cancel()

    run(scenario)


def test_a_muted_client_is_answered_and_then_waits() -> None:
    async def scenario() -> None:
        peer = ConnectionPeer(echo)
        peer.connection.mute(20)
        await peer.send(request(1))
        await peer.settle()
        assert not peer.asked
        assert await peer.receive(3) == OTHER + b"1"

    run(scenario)


# -- bad bytes


def test_a_negative_size_ends_the_connection_without_an_answer() -> None:
    async def scenario() -> None:
        peer = ConnectionPeer(echo)
        await peer.send(b"\xff\xff\xff\xff")
        assert await peer.receive(1) == b""
        assert peer.left == [peer.connection]

    run(scenario)


def test_requests_before_a_bad_size_are_answered_before_the_connection_ends() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1) + request(2) + struct.pack(">i", 2**31 - 1))
        await peer.until(lambda: len(futures.all) == 1)
        futures.all[0].set_result((b"A",))
        await peer.until(lambda: len(futures.all) == 2)
        futures.all[1].set_result((b"B",))
        assert await peer.receive(3) == b"AB"
        assert peer.connection.closed

    run(scenario)


def test_requests_before_a_bad_one_are_answered_and_those_after_it_are_not() -> None:
    async def scenario() -> None:
        def answer(frame: bytes) -> Answer:
            if frame == OTHER + b"2":
                raise PeerError("no such thing")
            return (frame,)

        peer = ConnectionPeer(answer)
        await peer.send(request(1) + request(2) + request(3))
        assert await peer.receive(6) == OTHER + b"1"
        assert peer.asked == [OTHER + b"1", OTHER + b"2"]

    run(scenario)


def test_an_answer_that_fails_ends_the_connection() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1))
        await peer.until(lambda: len(futures.all) == 1)
        futures.all[0].set_exception(PeerError("unreadable"))
        assert await peer.receive(1) == b""

    run(scenario)


# -- clients that leave


def test_a_wait_ends_when_its_client_leaves() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1))
        await peer.until(lambda: len(futures.all) == 1)
        peer.client.close()
        await peer.until(futures.all[0].cancelled)
        assert peer.connection.closed

    run(scenario)


def test_work_goes_on_when_its_client_leaves() -> None:
    async def scenario() -> None:
        step = asyncio.Event()
        done: list[bool] = []

        async def work() -> Parts:
            await step.wait()
            done.append(True)
            return (b"A",)

        peer = ConnectionPeer(lambda frame: asyncio.create_task(work()))
        await peer.send(request(1))
        await peer.until(lambda: len(peer.asked) == 1)
        peer.client.close()
        await peer.until(lambda: peer.connection.closed)
        step.set()
        await peer.until(lambda: done == [True])

    run(scenario)


def test_a_client_that_left_is_noticed_although_nothing_is_read_from_it() -> None:
    async def scenario() -> None:
        peer = ConnectionPeer(Futures())
        await peer.send(request(1) + request(2))
        await peer.until(lambda: len(peer.asked) == 1)
        assert not peer.connection.has_left()
        peer.client.close()
        await peer.settle()
        assert not peer.connection.closed
        assert peer.connection.has_left()

    run(scenario)


def test_it_closes_when_what_it_owes_is_sent() -> None:
    async def scenario() -> None:
        futures = Futures()
        peer = ConnectionPeer(futures)
        await peer.send(request(1))
        await peer.until(lambda: len(futures.all) == 1)
        peer.connection.close_when_idle()
        assert not peer.connection.closed
        futures.all[0].set_result((b"A",))
        assert await peer.receive(2) == b"A"
        assert peer.connection.closed

    run(scenario)


def test_a_handler_may_ask_for_the_end_and_still_answer() -> None:
    async def scenario() -> None:
        def answer(frame: bytes) -> Answer:
            peer.connection.close_when_idle()
            return (b"bye",)

        peer = ConnectionPeer(answer)
        await peer.send(request(1) + request(2))
        assert await peer.receive(4) == b"bye"
        assert len(peer.asked) == 1

    run(scenario)
