"""Leaving the demo while Spark starts."""

from pathlib import Path
from threading import Event

import pytest

from headrace.demo import spark_start
from headrace.demo.spark_start import SparkStart
from headrace.spark import ready_session


class Session:
    """A session of a Java that has ended, if it was ended."""

    def __init__(self, ended: Event) -> None:
        self._ended = ended
        self.stopped = False

    def stop(self) -> None:
        if self._ended.is_set():
            raise ConnectionRefusedError
        self.stopped = True


def test_java_that_is_ended_when_it_has_just_started_is_not_asked_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Event()

    def session(*_: object, **__: object) -> Session:
        assert ended.wait(90)
        return Session(ended)

    monkeypatch.setattr(ready_session, "session", session)
    monkeypatch.setattr(spark_start, "_end_java", ended.set)

    with SparkStart(tmp_path):
        pass

    assert ended.is_set()


def test_a_session_that_is_ready_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = Session(Event())
    monkeypatch.setattr(ready_session, "session", lambda *_, **__: started)

    with SparkStart(tmp_path) as spark:
        spark._thread.join(90)

    assert started.stopped
