"""A partition's log on a disk that loses unsynced bytes: random histories, and every single step.

What must hold after each reopen, whatever the disk kept of what was not synced (`LogHistory._check`
and the methods it calls):

1. Every record below an acknowledged `sync` is there, byte for byte.
2. No record is there that was not appended, none is changed, and offsets have no gap.
3. The log start never falls below what was deleted, nor rises above what was asked for.
4. Offset and time lookups agree with a walk over all batches; the newest timestamp is known.
5. Producer state is what replaying all batches gives: epoch, sequence, offset, open transaction.
6. The last stable offset and the list of aborted transactions follow from the batches.
7. The leader epoch of every offset is the one in its batch.
8. A crash alone never takes the directory offline, not even a crash in the middle of recovery.
9. After a clean stop there is nothing to recover.

`HEADRACE_CRASH_SEED=1234 pytest tests/crash` repeats one history; `HEADRACE_CRASH_HISTORIES=50000`
runs that many.
"""

import os

import pytest
import structlog

from testkit.simulation.log_history import LogHistory

_HISTORIES = int(os.environ.get("HEADRACE_CRASH_HISTORIES", "2000"))
_SEED = os.environ.get("HEADRACE_CRASH_SEED")
_SEEDS = range(_HISTORIES) if _SEED is None else [int(_SEED)]
_CHUNKS = 8 if _SEED is None else 1


@pytest.fixture(autouse=True)
def quiet_log():
    """Silence the log: each of thousands of recoveries reports its torn tail."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_random_histories_with_failing_calls_and_crashes(chunk: int) -> None:
    for seed in _SEEDS[chunk::_CHUNKS]:
        LogHistory(seed).run()


@pytest.mark.parametrize("seed", [3, 8, 25])
def test_the_power_may_go_at_any_change_of_the_disk(seed: int) -> None:
    history = LogHistory(seed, faults=False)
    before = history.mutations
    history.run(steps=20)

    for mutation in range(before + 1, history.mutations + 1):
        LogHistory(seed, faults=False, power_loss_at=mutation).run(steps=20)
