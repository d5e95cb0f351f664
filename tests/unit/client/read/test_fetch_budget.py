"""How many bytes a reader may hold, and when the fetching thread is woken."""

import pytest

from headrace.client.read.fetch_budget import FetchBudget


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def budget(woken: list[str]) -> FetchBudget:
    return FetchBudget(100, lambda: woken.append("!"))


def test_bytes_are_reserved_up_to_the_limit(budget: FetchBudget) -> None:
    assert budget.reserve(60)
    assert budget.reserve(40)
    assert not budget.reserve(1)
    assert budget.held_bytes == 100


def test_any_size_is_reserved_when_nothing_is_held(budget: FetchBudget) -> None:
    assert budget.reserve(1000)


def test_a_response_settles_what_its_request_reserved(budget: FetchBudget) -> None:
    budget.reserve(60)
    budget.replace_reservation(60, 250)
    assert budget.held_bytes == 250
    budget.release(250)
    assert budget.held_bytes == 0


def test_the_thread_is_woken_once_and_only_after_a_refusal(
    budget: FetchBudget, woken: list[str]
) -> None:
    budget.reserve(100)
    budget.release(10)
    assert woken == []
    budget.reserve(10)
    budget.reserve(10)
    budget.release(10)
    budget.release(10)
    assert woken == ["!"]
