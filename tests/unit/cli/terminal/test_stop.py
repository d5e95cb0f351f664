"""Signals between two steps."""

import os
import signal

import pytest

from headrace.cli.terminal.stop import Stop


def test_a_signal_is_noted_and_does_not_interrupt() -> None:
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_waiting(number: signal.Signals) -> None:
    with Stop() as stop, pytest.raises(KeyboardInterrupt), stop.waiting():
        os.kill(os.getpid(), number)


def test_a_signal_that_came_before_ends_the_next_waiting() -> None:
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), stop.waiting():
            raise AssertionError("not reached")


def test_a_second_signal_goes_through() -> None:
    with Stop(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop():
        pass
    assert signal.getsignal(signal.SIGTERM) == before
