"""A log that moves between two directories, on disks that fail: random histories, and every step.

What must hold is what holds for a log that stays (`test_partition_log_crash`), and that one
directory serves it after each start.
"""

import os

import pytest
import structlog

from testkit.simulation.moving_log_history import MovingLogHistory

_HISTORIES = int(os.environ.get("HEADRACE_CRASH_HISTORIES", "400"))
_SEED = os.environ.get("HEADRACE_CRASH_SEED")
_SEEDS = range(_HISTORIES) if _SEED is None else [int(_SEED)]
_CHUNKS = 4 if _SEED is None else 1


@pytest.fixture(autouse=True)
def quiet_log():
    """Silence the log: each of thousands of recoveries reports its torn tail."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_random_histories_with_failing_calls_and_crashes(chunk: int) -> None:
    moved = 0
    for seed in _SEEDS[chunk::_CHUNKS]:
        history = MovingLogHistory(seed)
        history.run()
        moved += history.moved
    assert moved or _SEED is not None


@pytest.mark.parametrize("seed", [3, 8])
def test_the_power_may_go_at_any_change_of_the_disk(seed: int) -> None:
    history = MovingLogHistory(seed, faults=False)
    before = history.mutations
    history.run(steps=20)
    assert history.moved

    for mutation in range(before + 1, history.mutations + 1):
        MovingLogHistory(seed, faults=False, power_loss_at=mutation).run(steps=20)
