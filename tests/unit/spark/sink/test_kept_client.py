"""What a client has learned serves the next task of the process, and no other."""

import os

import pytest

from headrace.spark.sink.kept_client import KEPT_SECONDS, MAX_KEPT, KeptClients


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> KeptClients[str]:
    return KeptClients(clock)


def test_a_client_serves_one_task_at_a_time(kept: KeptClients[str]) -> None:
    kept.keep("clicks", "writer")

    assert (kept.take("clicks"), kept.take("clicks")) == ("writer", None)


def test_a_client_serves_only_who_asks_with_its_key(kept: KeptClients[str]) -> None:
    kept.keep("clicks", "writer")

    assert kept.take("views") is None


@pytest.mark.parametrize(("seconds", "taken"), [(KEPT_SECONDS, "writer"), (61.0, None)])
def test_a_client_is_kept_for_a_minute(
    kept: KeptClients[str], clock: Clock, seconds: float, taken: str | None
) -> None:
    kept.keep("clicks", "writer")
    clock.now += seconds

    assert kept.take("clicks") == taken


def test_the_oldest_go_when_there_are_too_many(kept: KeptClients[str]) -> None:
    for number in range(MAX_KEPT + 1):
        kept.keep(number, str(number))

    assert (kept.take(0), kept.take(1)) == (None, "1")


def test_a_forked_process_has_none(kept: KeptClients[str]) -> None:
    kept.keep("clicks", "writer")
    child = os.fork()
    if not child:
        os._exit(0 if kept.take("clicks") is None else 1)

    assert os.waitpid(child, 0)[1] == 0
