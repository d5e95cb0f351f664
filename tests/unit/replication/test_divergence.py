"""Where two logs part."""

import pytest

from headrace.replication.divergence import Divergence, cut_offset, divergence
from testkit.simulation.simulated_log import SimulatedEntry, SimulatedLog


def log(*epochs, leading=None):
    made = SimulatedLog()
    made.append([SimulatedEntry(epoch, offset) for offset, epoch in enumerate(epochs)])
    if leading is not None:
        made.begin_epoch(leading)
    return made


@pytest.mark.parametrize(
    ("leader", "last_epoch", "fetch_offset", "reported"),
    [
        (log(0, 0, 1, leading=1), 1, 3, None),
        (log(0, 0, 1, leading=1), 0, 2, None),
        (log(0, 0, 1, leading=1), -1, 0, None),
        (log(0, 0, 2, leading=2), 1, 3, Divergence(0, 2)),
        (log(0, 0, leading=3), 2, 4, Divergence(0, 2)),
        (log(0, 0, 1, leading=1), 0, 3, Divergence(0, 2)),
    ],
)
def test_a_leader_says_where(leader, last_epoch, fetch_offset, reported):
    assert divergence(leader, last_epoch, fetch_offset) == reported


@pytest.mark.parametrize(
    ("follower", "reported", "cut"),
    [
        (log(0, 0, 1), Divergence(0, 2), 2),
        (log(0, 0, 0, 1), Divergence(0, 2), 2),
        (log(0, 1, 1), Divergence(0, 5), 1),
        (log(3, 3), Divergence(1, 5), 0),
        (log(3, 3), Divergence(-1, -1), None),
    ],
)
def test_a_follower_cuts_there(follower, reported, cut):
    assert cut_offset(follower, reported) == cut


def test_cutting_and_asking_again_ends_where_the_logs_are_the_same():
    leader = log(0, 0, 2, 2, 5, leading=6)
    follower = log(0, 0, 1, 3, 3, 4)

    while True:
        last = follower.last_epoch
        reported = divergence(leader, last, follower.log_end_offset)
        if reported is None:
            break
        follower.truncate_to(cut_offset(follower, reported))

    end = follower.log_end_offset
    assert follower.entries == leader.entries[:end]
    assert end == 2


class TestUnknownEpochs:
    def test_a_leader_that_knows_no_epoch_says_so(self):
        assert divergence(SimulatedLog(), 3, 7) == Divergence(-1, -1)

    def test_epoch_zero_is_an_epoch(self):
        log = SimulatedLog()
        log.append([SimulatedEntry(0, value) for value in range(5)])

        assert divergence(log, 0, 5) is None
        assert divergence(log, 0, 7) == Divergence(0, 5)
        assert cut_offset(log, Divergence(0, 3)) == 3
