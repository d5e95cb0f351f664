"""Selectors, and how a source's batch reaches its channels."""

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.channel_processor import ChannelProcessor
from headrace.ingest.error import ChannelFull
from headrace.ingest.event import EventBatch
from headrace.ingest.selector import Selector
from headrace.testing.channel_contract import drain, fill
from testkit.sample.ingest_agent import make, memory_channel


def channels(*names: str, capacity: str = "100") -> dict[str, Channel]:
    found = {
        name: memory_channel(capacity=capacity, transactionCapacity=capacity) for name in names
    }
    for name, channel in found.items():
        channel.name = name
    return found


def processor(type_name: str, texts: dict[str, str], known: dict[str, Channel]) -> ChannelProcessor:
    selector = make("selector", type_name, texts, known)
    assert isinstance(selector, Selector)
    return ChannelProcessor("r1", (), selector)


def test_replicating_gives_every_channel_everything() -> None:
    known = channels("c1", "c2")
    processor("replicating", {}, known).process(EventBatch.plain([b"a", b"b"]))
    assert [drain(each) for each in known.values()] == [[b"a", b"b"]] * 2


def test_a_full_optional_channel_delays_no_other() -> None:
    known = channels("c1", "c2", capacity="1")
    fill(known["c2"], [b"full"])
    processor("replicating", {"optional": "c2"}, known).process(EventBatch.plain([b"a"]))
    assert (drain(known["c1"]), drain(known["c2"])) == ([b"a"], [b"full"])


def test_a_full_required_channel_fails_the_batch() -> None:
    known = channels("c1", capacity="1")
    fill(known["c1"], [b"full"])
    with pytest.raises(ChannelFull):
        processor("replicating", {}, known).process(EventBatch.plain([b"a"]))


def test_a_second_try_gives_nothing_twice_to_channels_that_have_it() -> None:
    known = channels("c1", "c2", capacity="1")
    fill(known["c2"], [b"full"])
    tries: list[float] = []

    def wait(seconds: float) -> bool:
        tries.append(seconds)
        drain(known["c2"])
        return False

    assert processor("replicating", {}, known).process_with_retries(EventBatch.plain([b"a"]), wait)
    assert len(tries) == 1
    assert [drain(each) for each in known.values()] == [[b"a"], [b"a"]]


def test_a_batch_above_the_transaction_capacity_goes_in_several() -> None:
    known = {"c1": memory_channel(capacity="100", transactionCapacity="3")}
    processor("replicating", {}, known).process(EventBatch.plain([b"%d" % n for n in range(8)]))
    assert drain(known["c1"]) == [b"%d" % n for n in range(8)]


MAPPING = {"header": "state", "mapping.CA": "c1", "mapping.NY": "c1 c2", "default": "c3"}


def test_multiplexing_goes_by_the_header_and_keeps_the_order() -> None:
    known = channels("c1", "c2", "c3")
    states = ["CA", "NY", "AZ", "CA"]
    batch = EventBatch([b"%d" % n for n in range(5)], [*({"state": each} for each in states), {}])
    processor("multiplexing", MAPPING, known).process(batch)
    assert [drain(each) for each in known.values()] == [[b"0", b"1", b"3"], [b"1"], [b"2", b"4"]]


def test_multiplexing_without_a_default_drops_the_rest() -> None:
    known = channels("c1")
    batch = EventBatch.plain([b"x"], {"state": "AZ"})
    processor("multiplexing", {"header": "state", "mapping.CA": "c1"}, known).process(batch)
    assert drain(known["c1"]) == []


def test_multiplexing_has_optional_channels_for_a_value() -> None:
    known = channels("c1", "c2", "c3", capacity="1")
    fill(known["c3"], [b"full"])
    texts = {**MAPPING, "optional.CA": "c1 c3"}
    processor("multiplexing", texts, known).process(EventBatch.plain([b"x"], {"state": "CA"}))
    assert [drain(each) for each in known.values()] == [[b"x"], [], [b"full"]]


def test_load_balancing_takes_turns_with_whole_batches() -> None:
    known = channels("c1", "c2")
    balanced = processor("load_balancing", {}, known)
    for number in range(4):
        balanced.process(EventBatch.plain([b"%d" % number] * 2))
    assert [drain(each) for each in known.values()] == [
        [b"0", b"0", b"2", b"2"],
        [b"1", b"1", b"3", b"3"],
    ]
