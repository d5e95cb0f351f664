"""Turns: one at a time for each key."""

import asyncio

from headrace.broker.coordinator.key_queue import Turns


def test_turns_of_a_key_come_in_the_order_in_which_they_were_taken() -> None:
    async def main() -> list[int]:
        turns, order = Turns(), list[int]()
        taken = [turns.take("a") for _ in range(4)]

        async def work(number: int) -> None:
            await taken[number].wait()
            await asyncio.sleep(0)
            order.append(number)
            taken[number].done()

        await asyncio.gather(*(work(number) for number in (3, 1, 0, 2)))
        return order

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_another_key_does_not_wait() -> None:
    async def main() -> None:
        turns = Turns()
        turns.take("a")
        async with asyncio.timeout(5):
            await turns.take("b").wait()

    asyncio.run(main())


def test_a_key_is_there_while_a_turn_is_taken() -> None:
    async def main() -> None:
        turns = Turns()
        first, second = turns.take("a"), turns.take("a")
        first.done()
        assert "a" in turns
        second.done()
        second.done()
        assert "a" not in turns

    asyncio.run(main())


def test_a_waiter_that_is_cancelled_holds_nobody_up() -> None:
    async def main() -> None:
        turns = Turns()
        first, second, third = (turns.take("a") for _ in range(3))
        waiting = asyncio.create_task(second.wait())
        waiting.add_done_callback(lambda _: second.done())
        await asyncio.sleep(0)
        waiting.cancel()
        async with asyncio.timeout(5):
            await third.wait()
        first.done()

    asyncio.run(main())
