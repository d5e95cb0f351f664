"""How much of a task's output travels to the driver through Spark."""

import pytest

from headrace.spark.sink.task_output import carried_max_bytes

_MAX_RESULT_SIZE = 1 << 30


@pytest.mark.parametrize("tasks", [200, 2_000, 10_000, 100_000])
def test_all_tasks_together_stay_far_below_sparks_limit(tasks: int) -> None:
    assert sum(carried_max_bytes(each) for each in range(tasks)) <= _MAX_RESULT_SIZE // 2


def test_the_tasks_of_a_usual_query_carry_small_batches_themselves() -> None:
    assert {carried_max_bytes(each) for each in range(500)} == {512 * 1024}


def test_a_task_of_a_large_query_still_carries_a_record_or_two() -> None:
    assert carried_max_bytes(5_000) > 4_096
