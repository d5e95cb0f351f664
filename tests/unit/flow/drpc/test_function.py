"""Function topologies, without Spark and without a broker."""

import json
import time

import pyarrow as pa
import pytest

from headrace.flow.drpc.function import FunctionTopology
from headrace.flow.drpc.function_topics import FunctionTopics, deadline_of, new_request
from headrace.flow.error import FlowError
from headrace.flow.plan.work import Emit
from headrace.testing.flow_run import FlowRun


def request(seconds: float = 60.0) -> str:
    return new_request(time.time_ns() // 1_000_000 + int(seconds * 1_000))


def exclaim(request: str, args: str) -> tuple[str, str]:
    if args == "bad":
        raise ValueError("a bad word")
    return request, f"{args}!"


def exclaiming() -> FlowRun:
    made = FunctionTopology("exclaim", brokers="b:9092")
    made.bolt("exclaim", exclaim, output="request STRING, result STRING").shuffle("requests")
    made.reply("exclaim")
    return FlowRun(made.plan())


def keys(run: FlowRun, topic: str) -> list[str]:
    return [each["key"].decode() for each in run.records if each["topic"] == topic]


def test_a_reply_is_keyed_by_its_request() -> None:
    run, first, second = exclaiming(), request(), request()

    run.feed(["hey", None], key=pa.array([first.encode(), second.encode()]))

    assert run.values("drpc-exclaim-replies") == ["hey!", "!"]
    assert keys(run, "drpc-exclaim-replies") == [first, second]


def test_a_request_whose_caller_has_given_up_is_skipped() -> None:
    run = exclaiming()

    late = request(-1).encode()
    run.feed(["late", "odd", "none"], key=pa.array([late, b"no request of ours", None]))

    assert run.records == []


def test_an_error_is_a_dead_letter_with_the_request() -> None:
    run, bad = exclaiming(), request()

    run.feed(["bad"], key=pa.array([bad.encode()]))

    (letter,) = run.values("drpc-exclaim-failures")
    assert json.loads(letter) == {"request": bad, "args": "bad"}


def parts(request: str, args: str) -> list[tuple[str, str]]:
    return [(request, each) for each in args.split(",")]


def sums(batch: pa.RecordBatch, emit: Emit) -> None:
    totals: dict[str, int] = {}
    for each, part in zip(batch["request"].to_pylist(), batch["part"].to_pylist(), strict=True):
        totals[each] = totals.get(each, 0) + int(part)
    if 0 in totals.values():
        raise ValueError("a sum of nothing")
    emit([list(totals), list(map(str, totals.values()))])


@pytest.mark.parametrize("others", ["x", "5,x", "5,-5"])
def test_a_request_that_raises_does_not_divide_that_of_another_caller(others: str) -> None:
    made = FunctionTopology("sum", brokers="b:9092")
    made.bolt("parts", parts, output="request STRING, part STRING").shuffle("requests")
    made.bolt("sum", sums, output="request STRING, result STRING").fields("parts", "request")
    made.reply("sum")
    run, mine = FlowRun(made.plan()), request()

    run.feed([others, "1,10,100", others], key=pa.array([request(), mine, request()]))

    replies = [each["value"] for each in run.records if each["key"] == mine.encode()]
    assert replies == [b"111"]


def test_the_id_of_a_request_has_its_deadline() -> None:
    assert deadline_of(new_request(123)) == 123
    assert deadline_of("x-y") == deadline_of(None) == deadline_of("9" * 30) == 0


@pytest.mark.parametrize("name", ["", "a b", "../x", "a" * 101])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    with pytest.raises(FlowError, match="a function cannot be called"):
        FunctionTopics(name)
