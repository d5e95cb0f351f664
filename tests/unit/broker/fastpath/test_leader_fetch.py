"""The fast path serves a follower's fetches that repeat themselves as the handler does."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from headrace.broker.fetch.fetch_watch import FetchWatch, _Watcher
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.replica.partition import Partition
from headrace.cluster.config_command import ConfigAlteration
from headrace.model.clock import ManualClock
from headrace.model.config_code import ConfigOperation
from headrace.model.ids import BrokerId, LeaderEpoch
from headrace.wire.error_code import ErrorCode
from testkit.sample.fetching_follower import (
    FOLLOWER,
    PARTITIONS,
    FetchingFollower,
    read,
    run,
    stored,
    turns,
)


def take_away(partition: Partition) -> None:
    """The follower is no replica any more."""
    partition.state.set_isr({partition.state.broker_id})
    partition.state.set_replicas({partition.state.broker_id}, 0)


def test_a_fetch_that_waits_is_answered_with_the_next_batch(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()

        waiting = follower.fast_path.serve(follower.frame())
        assert isinstance(waiting, CallbackFuture)
        assert not waiting.done()
        # Its fetch offset says that it has the record before.
        assert follower.partitions[0].log.high_watermark == 2
        follower.append(0)
        await turns()
        follower.append_response(waiting)

        assert follower.in_step()
        assert follower.copies[0] == stored(follower.partitions[0])

    run(tmp_path, scenario)


def test_what_grew_elsewhere_is_sent_as_well(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        frame = follower.frame()
        follower.append(1)
        follower.append(2)

        response = follower.append_response(follower.fast_path.serve(frame))

        assert {each.partition for each in response.topics[0].partitions} == {1, 2}
        assert follower.in_step()

    run(tmp_path, scenario)


def test_what_was_sent_and_not_appended_is_sent_again(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        frame = follower.frame()
        follower.append(1)
        lost = follower.fast_path.serve(frame)
        assert lost is not None
        # It takes the answer for the session, and forgets the records in it.
        ends, copies = list(follower.ends), list(follower.copies)
        follower.append_response(lost)
        follower.ends, follower.copies = ends, copies
        follower.append(0)
        follower.named = [0]

        follower.append_response(follower.ask(follower.frame()))

        assert follower.in_step()

    run(tmp_path, scenario)


def test_time_that_is_up_brings_the_high_watermark(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = follower.fast_path.serve(follower.frame())
        assert isinstance(waiting, CallbackFuture)

        follower.fast_path.finish()
        follower.append_response(waiting)

        assert (
            follower.received_high_watermarks[0] == follower.partitions[0].log.high_watermark == 2
        )

    run(tmp_path, scenario)


def test_now_and_then_the_handler_looks_at_all_partitions(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, clock: ManualClock) -> None:
        follower.get_in_step()
        clock.advance(250)

        assert follower.fast_path.serve(follower.frame()) is None

    run(tmp_path, scenario)


def test_a_leader_that_steps_down_says_so_at_once(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = follower.fast_path.serve(follower.frame())
        topic = follower.broker.topics.by_name("clicks")
        assert topic is not None
        topic.partitions[0] = None
        follower.broker.topics.changed(next(iter(follower.broker.topics)))
        follower.partitions[0].resign()
        await turns()

        [topic_result] = follower.append_response(waiting).topics

        gone = follower.broker.topics.missing_code(None, follower.topic_id, 0)
        assert topic_result.partitions[0].error_code == gone != ErrorCode.none

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "change",
    [
        lambda follower: follower.broker.topics.changed(next(iter(follower.broker.topics))),
        lambda follower: follower.ends.__setitem__(0, 99),
        lambda follower: setattr(follower, "session_epoch", 77),
        lambda follower: take_away(follower.partitions[0]),
    ],
    ids=["topics", "offset", "session epoch", "replicas"],
)
def test_it_declines_when_something_is_not_as_it_was(
    tmp_path: Path, change: Callable[[FetchingFollower], object]
) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        change(follower)
        before = follower.partitions[0].log.high_watermark

        assert follower.fast_path.serve(follower.frame()) is None
        assert follower.partitions[0].log.high_watermark == before

    run(tmp_path, scenario)


def test_a_throttle_that_is_set_while_it_runs_counts_until_it_is_taken_back(
    tmp_path: Path,
) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        key = "leader.replication.throttled.replicas"

        async def alter(operation: ConfigOperation) -> None:
            alterations = [ConfigAlteration(key, operation, "*")]
            await follower.broker.controller.administer(
                lambda controller: controller.alter_topic_configs("clicks", alterations)
            )

        await alter(ConfigOperation.SET)
        assert follower.fast_path.serve(follower.frame()) is None
        await alter(ConfigOperation.DELETE)
        follower.get_in_step()

        assert follower.fast_path.serve(follower.frame()) is not None

    run(tmp_path, scenario)


def test_records_of_an_older_epoch_are_left_to_the_handler(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()

        assert follower.fast_path.serve(follower.frame(last_epoch=-1)) is None

    run(tmp_path, scenario)


def test_a_follower_that_cannot_be_compared_starts_over(tmp_path: Path) -> None:
    """Its log ends where the leader's starts, with an epoch that the leader does not know."""

    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        for index, partition in enumerate(follower.partitions):
            partition.log.truncate_fully_and_start_at(5)
            partition.log.epochs.assign(2, 5)
            partition.leader_epoch = LeaderEpoch(2)
            follower.ends[index] = 5 if index else 4

        answer = follower.ask_handler(follower.frame(wait_ms=0, last_epoch=1))
        [topic] = read(cast(Parts, answer)).topics
        assert [each.error_code for each in topic.partitions] == [
            ErrorCode.offset_out_of_range
        ] * PARTITIONS
        assert [each.log_start_offset for each in topic.partitions] == [5] * PARTITIONS

        # An empty log, and one with records of this epoch, go on.
        for last_epoch in (-1, 2):
            follower.ends[0] = 5
            follower.session_id = follower.session_epoch = 0
            answer = follower.ask_handler(follower.frame(wait_ms=0, last_epoch=last_epoch))
            [topic] = read(cast(Parts, answer)).topics
            assert [each.error_code for each in topic.partitions] == [0] * PARTITIONS

    run(tmp_path, scenario)


def test_a_follower_that_is_gone_is_sent_nothing_any_more(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        waiting = follower.fast_path.serve(follower.frame())
        assert isinstance(waiting, CallbackFuture)

        waiting.cancel()
        follower.fast_path.close()
        follower.append(0)
        await turns()

        assert waiting.cancelled()
        # Its session outlives the connection, and leaves a watcher with each partition at most.
        left = [type(each) for one in follower.partitions for each in one._replica_waiters]
        assert set(left) <= {_Watcher}
        assert len(left) < PARTITIONS

    run(tmp_path, scenario)


def watch_of(follower: FetchingFollower) -> FetchWatch:
    session = follower.broker.fetch_sessions.find(follower.session_id)
    assert session is not None
    assert isinstance(session.watch, FetchWatch)
    return session.watch


def get_idle(follower: FetchingFollower) -> None:
    """Have everything, high watermarks too, so that nothing is left to say."""
    follower.get_in_step()
    for _ in range(3):
        follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))
    assert not watch_of(follower).ready


def fetched_ms(follower: FetchingFollower, index: int) -> int:
    return follower.partitions[index].state._followers[FOLLOWER].fetched_ms


def test_an_idle_fetch_looks_at_no_partition(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, clock: ManualClock) -> None:
        get_idle(follower)
        before = fetched_ms(follower, 1)
        clock.advance(1)

        waiting = follower.ask_handler(follower.frame())
        assert isinstance(waiting, CallbackFuture)
        assert fetched_ms(follower, 1) == before
        follower.append(1)
        follower.append(2)
        await turns()

        follower.append_response(waiting)
        assert follower.in_step()
        assert len(watch_of(follower)) == 1

    run(tmp_path, scenario)


def test_a_leader_counts_an_idle_follower_as_alive_in_every_partition(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, clock: ManualClock) -> None:
        get_idle(follower)
        max_lag_ms = int(follower.broker.settings["replica.lag.time.max.ms"])
        for _ in range(12):
            clock.advance(max_lag_ms // 4)
            follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))
        now_ms = clock.monotonic_ms()

        for each in follower.partitions:
            assert not each.state.followers_are_silent(now_ms, max_lag_ms)
        follower.append(1)
        assert not follower.partitions[1].state.late(now_ms, max_lag_ms)

    run(tmp_path, scenario)


def test_a_high_watermark_that_moved_is_sent_to_an_idle_follower(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        get_idle(follower)
        partition = follower.partitions[1]
        # Another replica holds the high watermark back, and lets go.
        other = BrokerId(8)
        partition.state.set_replicas({partition.state.broker_id, FOLLOWER, other}, 0)
        partition.state.set_isr({partition.state.broker_id, FOLLOWER, other})
        follower.append(1)
        for _ in range(3):
            follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))
        assert not watch_of(follower).ready
        assert follower.received_high_watermarks[1] == 0

        partition.follower_fetched(other, 1, now_ms=0, broker_epoch=1)
        follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))

        assert follower.received_high_watermarks[1] == 1

    run(tmp_path, scenario)


def test_every_fetch_of_a_follower_that_is_out_of_sync_counts(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, clock: ManualClock) -> None:
        get_idle(follower)
        partition = follower.partitions[1]
        partition.state.set_isr({partition.state.broker_id})
        topic = follower.broker.topics.by_name("clicks")
        assert topic is not None
        follower.broker.topics.changed(topic)
        for _ in range(2):
            clock.advance(1)
            follower.append_response(follower.ask_handler(follower.frame(wait_ms=0)))

            assert fetched_ms(follower, 1) == clock.monotonic_ms()
            assert fetched_ms(follower, 2) < clock.monotonic_ms()

    run(tmp_path, scenario)


def limit_every_client(follower: FetchingFollower) -> None:
    """Let no client fetch more than a byte per second; a throttled one would be muted."""
    limits = {(("client-id", None),): {"consumer_byte_rate": 1.0}}
    follower.broker.quotas.set_limits(limits)


def test_a_client_quota_slows_no_follower_on_the_slow_path(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        limit_every_client(follower)
        for index in range(PARTITIONS):
            follower.append(index)

        response = follower.append_response(follower.ask_handler(follower.frame()))

        assert response.throttle_ms == 0
        assert follower.in_step()

    run(tmp_path, scenario)


def test_a_client_quota_slows_no_follower_on_the_fast_path(tmp_path: Path) -> None:
    async def scenario(follower: FetchingFollower, _: ManualClock) -> None:
        follower.get_in_step()
        limit_every_client(follower)
        frame = follower.frame()
        follower.append(0)
        answer = follower.fast_path.serve(frame)
        assert answer is not None

        assert follower.append_response(answer).throttle_ms == 0
        # Several partitions are due: their response is packed as the slow path does it.
        follower.append(1)
        follower.append(2)
        answer = follower.fast_path.serve(follower.frame())
        assert answer is not None
        assert follower.append_response(answer).throttle_ms == 0
        assert follower.in_step()

    run(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(25))
def test_a_follower_has_everything_whichever_way_its_fetches_go(tmp_path: Path, seed: int) -> None:
    async def scenario(follower: FetchingFollower, clock: ManualClock) -> None:
        chance = random.Random(seed)
        waiting: Answer = None
        for _ in range(120):
            what = chance.random()
            if what < 0.5:
                follower.append(chance.choice((0, 0, 0, 1, 2)))
            elif what < 0.55:
                clock.advance(chance.choice((1, 100, 250)))
            if chance.random() < 0.5:
                await turns()
            if waiting is None:
                waiting = follower.ask(follower.frame())
            if not isinstance(waiting, CallbackFuture) or waiting.done():
                follower.append_response(waiting)
                waiting = None
        await turns()
        while not (
            follower.in_step() and isinstance(waiting, CallbackFuture) and not waiting.done()
        ):
            if waiting is not None:
                follower.append_response(waiting)
            waiting = follower.ask(follower.frame())

        for partition, copy in zip(follower.partitions, follower.copies, strict=True):
            assert partition.state.is_committed(partition.log.log_end_offset)
            assert stored(partition) == copy
        assert follower.served_fast > 5
        waiting.cancel()

    run(tmp_path, scenario)
