"""What a reader may hold, and who is told when there is room again."""

import pytest

from headrace.client.read.fetch_budget import FetchBudget


@pytest.fixture
def rung() -> list[str]:
    return []


@pytest.fixture
def budget(rung: list[str]) -> FetchBudget:
    return FetchBudget(100, lambda: rung.append("!"))


def test_it_is_given_out_up_to_the_limit(budget: FetchBudget) -> None:
    assert budget.take(60)
    assert budget.take(40)
    assert not budget.take(1)
    assert budget.held_bytes == 100


def test_who_holds_nothing_may_take_anything(budget: FetchBudget) -> None:
    assert budget.take(1000)


def test_an_answer_settles_what_its_request_took(budget: FetchBudget) -> None:
    budget.take(60)
    budget.settle(60, 250)
    assert budget.held_bytes == 250
    budget.give_back(250)
    assert budget.held_bytes == 0


def test_only_who_was_refused_is_woken_and_once(budget: FetchBudget, rung: list[str]) -> None:
    budget.take(100)
    budget.give_back(10)
    assert rung == []
    budget.take(10)
    budget.take(10)
    budget.give_back(10)
    budget.give_back(10)
    assert rung == ["!"]
