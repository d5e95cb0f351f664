"""Groups of sinks: which sink gets the next batch when some fail."""

from itertools import pairwise

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.error import DeliveryFailed
from headrace.ingest.processors.failover import FailoverSinkProcessor
from headrace.ingest.processors.load_balance import LoadBalanceSinkProcessor
from headrace.ingest.settings import Settings
from headrace.model.error import ConfigError
from headrace.testing.channel_contract import fill
from testkit.sample.ingest_agent import CollectingSink, make, memory_channel


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def channel() -> Channel:
    return memory_channel()


@pytest.fixture
def sinks(channel: Channel) -> list[CollectingSink]:
    settings = Settings.from_texts(CollectingSink.SETTINGS, {})
    sinks = [CollectingSink(name, settings) for name in ("k1", "k2", "k3")]
    for sink in sinks:
        sink.channel = channel
    return sinks


def failover(sinks: list[CollectingSink], clock: Clock, **texts: str) -> FailoverSinkProcessor:
    written = {"priority.k1": "5", "priority.k2": "10", **texts}
    settings = Settings.from_texts(FailoverSinkProcessor.SETTINGS, written)
    return FailoverSinkProcessor("g1", settings, sinks, clock)


def balance(sinks: list[CollectingSink], clock: Clock, **texts: str) -> LoadBalanceSinkProcessor:
    settings = Settings.from_texts(LoadBalanceSinkProcessor.SETTINGS, texts)
    return LoadBalanceSinkProcessor("g1", settings, sinks, clock)


def test_failover_uses_the_highest_priority(channel: Channel, sinks: list[CollectingSink]) -> None:
    fill(channel, [b"a"])
    failover(sinks, Clock()).process()
    assert [sink.bodies for sink in sinks] == [[], [b"a"], []]


def test_failover_goes_to_the_next_and_loses_nothing(
    channel: Channel, sinks: list[CollectingSink]
) -> None:
    sinks[1].failing = True
    fill(channel, [b"a"])
    failover(sinks, Clock()).process()
    assert [sink.bodies for sink in sinks] == [[b"a"], [], []]


def test_a_sink_that_works_again_has_its_place_back_after_its_penalty(
    channel: Channel, sinks: list[CollectingSink]
) -> None:
    clock = Clock()
    group = failover(sinks, clock)
    sinks[1].failing = True
    for body, failing, seconds in ((b"1", True, 0.5), (b"2", False, 0.6), (b"3", False, 0)):
        sinks[1].failing = failing
        fill(channel, [body])
        group.process()
        clock.now += seconds
    assert (sinks[0].bodies, sinks[1].bodies) == ([b"1", b"2"], [b"3"])


def test_penalties_grow_up_to_the_longest(channel: Channel, sinks: list[CollectingSink]) -> None:
    clock = Clock()
    texts = {"maxpenalty": "3000"}
    settings = Settings.from_texts(FailoverSinkProcessor.SETTINGS, texts)
    group = FailoverSinkProcessor("g1", settings, sinks[:1], clock)
    sinks[0].failing = True
    fill(channel, [b"a"])
    tried_at = []
    while len(tried_at) < 5:
        with pytest.raises(DeliveryFailed, match="no sink of group g1 works"):
            group.process()
        if sinks[0].counters["EventWriteFail"] > len(tried_at):
            tried_at.append(clock.now)
        clock.now += 0.5
    pauses = [later - earlier for earlier, later in pairwise(tried_at)]
    assert pauses == [1.0, 2.0, 3.0, 3.0]


def test_a_priority_for_a_sink_of_another_group_is_a_mistake(
    sinks: list[CollectingSink],
) -> None:
    with pytest.raises(ConfigError, match="the group has no sink k9"):
        failover(sinks, Clock(), **{"priority.k9": "1"})


def test_load_balance_takes_turns(channel: Channel, sinks: list[CollectingSink]) -> None:
    group = balance(sinks, Clock())
    for number in range(6):
        fill(channel, [b"%d" % number])
        group.process()
    assert [sink.bodies for sink in sinks] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


def test_load_balance_skips_a_sink_that_fails(
    channel: Channel, sinks: list[CollectingSink]
) -> None:
    sinks[0].failing = True
    group = balance(sinks, Clock(), backoff="true")
    for number in range(4):
        fill(channel, [b"%d" % number])
        group.process()
    assert sorted(sinks[1].bodies + sinks[2].bodies) == [b"0", b"1", b"2", b"3"]
    assert sinks[0].counters["EventWriteFail"] == 1


def test_when_all_sinks_fail_the_events_stay_in_the_channel(
    channel: Channel, sinks: list[CollectingSink]
) -> None:
    for sink in sinks:
        sink.failing = True
    fill(channel, [b"a"])
    with pytest.raises(DeliveryFailed):
        balance(sinks, Clock(), selector="random").process()
    assert channel.size == 1


def test_a_default_processor_runs_one_sink(sinks: list[CollectingSink]) -> None:
    with pytest.raises(ConfigError, match="runs one sink, and group it has 3"):
        make("processor", "default", {}, sinks)
