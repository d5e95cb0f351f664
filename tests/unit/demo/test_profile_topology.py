from collections import Counter
from typing import Any

import pyarrow as pa

from headrace.demo.profile_topology import JoinProfile, profile_plan
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.runtime.task_state import TaskState


class Joined:
    """A bolt with its state, and the countries it emitted."""

    def __init__(self) -> None:
        self.bolt = JoinProfile()
        self.bolt.state = TaskState()
        self.countries: Counter[str] = Counter()

    def views(self, *users: str) -> None:
        self._run({"user": list(users), "page": ["/"] * len(users)})

    def profile(self, user: str, country: str) -> None:
        self._run({"user": [user], "country": [country]})

    def _run(self, columns: dict[str, list[str]]) -> None:
        def emit(columns: Any, **_: Any) -> None:
            self.countries.update(columns[0])

        self.bolt.execute(pa.RecordBatch.from_pydict(columns), emit)
        self.bolt.state.accept()


def test_a_view_has_the_country_of_its_user() -> None:
    joined = Joined()
    joined.profile("ada", "GB")
    joined.profile("blaise", "FR")

    joined.views("ada", "blaise", "ada")

    assert joined.countries == {"GB": 2, "FR": 1}


def test_views_wait_for_the_profile_of_their_user() -> None:
    joined = Joined()

    joined.views("ada", "ada")
    joined.views("ada")
    assert joined.countries == {}
    joined.profile("ada", "GB")

    assert joined.countries == {"GB": 3}


def test_a_profile_that_comes_again_counts_nothing_again() -> None:
    joined = Joined()
    joined.views("ada")
    joined.profile("ada", "GB")

    joined.profile("ada", "FR")
    joined.views("ada")

    assert joined.countries == {"GB": 1, "FR": 1}


def test_the_plan_has_no_mistake() -> None:
    check_plan(profile_plan("127.0.0.1:9092"))
