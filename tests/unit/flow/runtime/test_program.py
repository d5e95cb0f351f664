"""The bolts that a worker has prepared, and their end."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.flow.plan.stage import cut
from headrace.flow.runtime.program import Cast, Program, cast_of
from headrace.flow.runtime.work import TaskContext
from headrace.flow.storm.bolt import Bolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


class Tidy(Bolt):
    """Writes down that it was cleaned up, and may raise then."""

    left: list[str]

    def __init__(self, left: list[str], *, raises: bool) -> None:
        self.left, self.raises = left, raises

    def cleanup(self) -> None:
        if self.raises:
            raise OSError("the connection is gone")
        self.left.append("tidy")


def program_of(run: str, bolt: Bolt) -> Program:
    made = Topology("words", dead_letters=None)
    made.spout("lines", TopicSpout("lines", brokers="b:9092", fields="value STRING"))
    made.bolt("tidy", bolt, output="value STRING").shuffle("lines")
    made.sink("out", TopicSink("out", value="value")).shuffle("tidy")
    plan = made.plan()
    return Program(plan, cut(plan), run)


def context(program: Program) -> TaskContext:
    return TaskContext(
        plan=program.plan.name,
        component="tidy",
        task=0,
        tasks=1,
        state=None,
        inputs=(),
        retries=0,
        now_ms=0,
    )


def shared(work: Any) -> Any:
    return work


def test_a_bolt_is_prepared_once_a_task() -> None:
    cast, program = Cast(), program_of("one", Tidy([], raises=False))

    first = cast.play(program, context(program), shared)
    second = cast.play(program, context(program), shared)
    other = cast.play(program, replace(context(program), task=1), shared)

    assert first is second
    assert other is not None


def test_a_cleanup_that_raises_keeps_no_other_from_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left: list[str] = []
    cast = Cast()
    for run, raises in (("one", True), ("two", False)):
        program = program_of(run, Tidy(left, raises=raises))
        cast.play(program, replace(context(program), task=int(not raises)), shared)

    cast.clear()

    assert left == ["tidy"]
    told = "cleanup of tidy, task 0, raised OSError: the connection is gone"
    assert told in capsys.readouterr().err


def test_a_program_that_has_to_leave_cannot_end_the_one_that_comes() -> None:
    programs = [program_of(f"run {each}", Tidy([], raises=True)) for each in range(6)]

    casts = [cast_of(each) for each in programs]
    for cast, program in zip(casts, programs, strict=True):
        cast.play(program, context(program), shared)
    again = cast_of(programs[0])

    assert again is not casts[0]
