"""A KeyQueue lets one ticket per key go at a time."""

import asyncio

from headrace.broker.coordinator.key_queue import KeyQueue


def test_tickets_of_a_key_come_in_the_order_in_which_they_were_queued() -> None:
    async def main() -> list[int]:
        queue, order = KeyQueue(), list[int]()
        tickets = [queue.enqueue("a") for _ in range(4)]

        async def work(number: int) -> None:
            await tickets[number].wait()
            await asyncio.sleep(0)
            order.append(number)
            tickets[number].done()

        await asyncio.gather(*(work(number) for number in (3, 1, 0, 2)))
        return order

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_another_key_does_not_wait() -> None:
    async def main() -> None:
        queue = KeyQueue()
        queue.enqueue("a")
        async with asyncio.timeout(60):
            await queue.enqueue("b").wait()

    asyncio.run(main())


def test_a_key_is_there_while_a_ticket_is_not_done() -> None:
    async def main() -> None:
        queue = KeyQueue()
        first, second = queue.enqueue("a"), queue.enqueue("a")
        first.done()
        assert "a" in queue
        second.done()
        second.done()
        assert "a" not in queue

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_holds_up_no_other() -> None:
    async def main() -> None:
        queue = KeyQueue()
        first, second, third = (queue.enqueue("a") for _ in range(3))
        waiting = asyncio.create_task(second.wait())
        waiting.add_done_callback(lambda _: second.done())
        await asyncio.sleep(0)
        waiting.cancel()
        async with asyncio.timeout(60):
            await third.wait()
        first.done()

    asyncio.run(main())
