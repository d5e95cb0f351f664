"""Bytes are taken as they come, in turn, and bodies that are incomplete cannot block each other."""

import asyncio

from headrace.gateway.http.byte_budget import ByteBudget


async def blocked(task: "asyncio.Task[None]") -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


def test_a_share_waits_until_another_one_is_given_back() -> None:
    async def run() -> None:
        budget = ByteBudget(10)
        one, other = budget.share(), budget.share()
        await one.take(8)
        waiting = asyncio.ensure_future(other.take(4))
        assert await blocked(waiting)
        one.shrink(6)
        await waiting
        assert (one.taken, other.taken) == (6, 4)

    asyncio.run(run())


def test_a_large_share_that_waits_is_not_passed_by_small_ones() -> None:
    async def run() -> None:
        budget = ByteBudget(10)
        first, large, small = (budget.share() for _ in range(3))
        await first.take(5)
        waits = asyncio.ensure_future(large.take(9))
        behind = asyncio.ensure_future(small.take(1))
        assert await blocked(waits) and await blocked(behind)
        first.give_back()
        await asyncio.gather(waits, behind)

    asyncio.run(run())


def test_of_bodies_that_are_all_incomplete_one_comes_to_its_end() -> None:
    async def run() -> None:
        budget = ByteBudget(30, reserve=10)
        shares = [budget.share() for _ in range(5)]
        for each in shares[:4]:
            await each.take(5)  # the budget without the reserve is used up
        rests = [asyncio.ensure_future(each.take(5)) for each in shares[:4]]
        assert not await blocked(rests[0]) and await blocked(rests[1])
        shares[0].give_back()
        await asyncio.wait_for(rests[1], 60)
        shares[1].give_back()
        await asyncio.gather(*rests[2:])
        assert [each.taken for each in shares] == [0, 0, 10, 10, 0]

    asyncio.run(run())


def test_what_a_request_that_gives_up_had_waited_for_goes_to_the_next() -> None:
    async def run() -> None:
        budget = ByteBudget(10)
        one, other, third = (budget.share() for _ in range(3))
        await one.take(10)
        gone = asyncio.ensure_future(other.take(10))
        waits = asyncio.ensure_future(third.take(10))
        assert await blocked(gone)
        gone.cancel()
        one.give_back()
        await waits
        assert other.taken == 0

    asyncio.run(run())
