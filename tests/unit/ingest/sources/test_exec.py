"""The exec source."""

from headrace.ingest.sources.exec import ExecSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import source_alone


def test_every_line_of_a_command_is_an_event() -> None:
    texts = {"command": "printf 'one\\ntwo\\nlast'"}
    with source_alone("exec", texts) as (source, got):
        assert isinstance(source, ExecSource)
        wait_until(source.ended.is_set, what="the end of the command")
    assert got.bodies == [b"one", b"two", b"last"]


def test_a_shell_understands_more() -> None:
    texts = {"shell": "/bin/sh -c", "command": "for i in 1 2 3; do echo $i; done"}
    with source_alone("exec", texts) as (source, got):
        assert isinstance(source, ExecSource)
        wait_until(source.ended.is_set, what="the end of the command")
    assert got.bodies == [b"1", b"2", b"3"]


def test_a_command_can_be_run_again() -> None:
    texts = {"command": "echo x", "restart": "true", "restartThrottle": "1"}
    with source_alone("exec", texts) as (_, got):
        wait_until(lambda: len(got.bodies) >= 3, what="three runs")
    assert set(got.bodies) == {b"x"}


def test_stopping_ends_a_command_that_would_go_on() -> None:
    with source_alone("exec", {"command": "tail -f /dev/null"}) as (source, _):
        assert isinstance(source, ExecSource)
    assert source.ended.wait(90)
