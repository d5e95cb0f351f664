"""Leader epochs against the log they describe: a list of who wrote each offset."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.partition.leader_epochs import LeaderEpochs
from testkit.fault.crash_disk import CrashDisk

PATH = Path("/data/leader-epoch-checkpoint")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 5)),
        st.tuples(st.just("elect"), st.integers(1, 3)),
        st.tuples(st.just("cut_end"), st.integers(0, 40)),
        st.tuples(st.just("cut_start"), st.integers(0, 40)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=200)
@given(steps=STEPS)
def test_epochs_describe_the_log(steps: list[tuple[str, int]]) -> None:
    disk = CrashDisk()
    disk.make_directory(PATH.parent)
    epochs = LeaderEpochs(disk, PATH)
    log: list[int] = []  # the epoch that wrote each offset
    start, epoch = 0, 0
    for what, argument in steps:
        if what == "write":
            epochs.assign(epoch, len(log))
            log += [epoch] * argument
        elif what == "elect":
            epoch += argument
        elif what == "cut_end":
            end = max(start, min(argument, len(log)))
            del log[end:]
            epochs.truncate_from_end(end)
        else:
            start = max(start, min(argument, len(log)))
            epochs.truncate_from_start(start)

    assert LeaderEpochs(disk, PATH).entries == epochs.entries
    for offset in range(start, len(log)):
        assert epochs.epoch_at(offset) == log[offset]
    # Also of the last record below the start: a follower's log may end there.
    for requested in set(log[max(0, start - 1) :]):
        end = max(offset for offset, each in enumerate(log) if each <= requested) + 1
        assert epochs.end_offset(requested, len(log)) == (requested, end)
