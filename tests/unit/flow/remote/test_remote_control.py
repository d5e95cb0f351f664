"""How a command tells from the records of a run that its request is done."""

from dataclasses import replace

import pytest

from headrace.flow.monitoring.run_folder import this_run
from headrace.flow.remote.remote_control import answer_in
from headrace.flow.remote.remote_request import Action, RemoteRequest
from headrace.flow.remote.remote_run import RemoteRun, remote_run

RUN = remote_run(
    this_run(name="words", program="words.py", master="yarn", brokers="b:9092"),
    application="application_1_0001",
    host="node7",
)
STOP = RemoteRequest(action=Action.STOP, target=RUN.target)
RESTART = RemoteRequest(action=Action.RESTART, target=RUN.target)


def answered(request: RemoteRequest, report: RemoteRun | None) -> str | None:
    value = None if report is None else report.to_value()
    answer = answer_in(RUN, request, value, 0)
    return "waits" if answer is None else answer.problem


@pytest.mark.parametrize("request_", [STOP, RESTART])
def test_a_record_without_a_value_may_be_of_an_earlier_attempt(request_: RemoteRequest) -> None:
    assert answered(request_, None) == "waits"


@pytest.mark.parametrize("request_", [STOP, RESTART])
def test_another_process_says_nothing_of_this_one(request_: RemoteRequest) -> None:
    other = replace(RUN, instance="node8-1-1-1", ended=True, outcomes=((request_.id, None),))

    assert answered(request_, other) == "waits"


def test_a_stop_is_done_when_the_driver_has_ended_and_not_when_it_was_accepted() -> None:
    accepted = replace(RUN, outcomes=((STOP.id, None),))

    assert answered(STOP, RUN) == "waits"
    assert answered(STOP, accepted) == "waits"
    assert answered(STOP, replace(accepted, ended=True)) is None
    assert answered(STOP, replace(RUN, ended=True)) is None


def test_another_request_is_done_when_the_driver_says_so() -> None:
    done = replace(RUN, outcomes=((RESTART.id, None),))

    assert answered(RESTART, RUN) == "waits"
    assert answered(RESTART, done) is None
    assert answered(RESTART, replace(done, ended=True)) is None
    assert answered(RESTART, replace(RUN, ended=True)) == "words ended before it was done"


@pytest.mark.parametrize("request_", [STOP, RESTART])
@pytest.mark.parametrize("ended", [False, True])
def test_what_the_driver_could_not_do_is_reported(request_: RemoteRequest, ended: bool) -> None:
    failed = replace(RUN, ended=ended, outcomes=((request_.id, "no executor is there"),))

    assert answered(request_, failed) == "no executor is there"
