"""What `headrace cluster move-log` says while it waits."""

import pytest

from headrace.cli.cluster_log_dir import shortage_of
from headrace.client.admin.log_dir_admin import LogDir, ReplicaLog
from headrace.model.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("free", "warned"),
    [(None, False), (600, False), (599, True), (0, True)],
)
def test_a_move_that_finds_no_room_says_what_it_needs(free: int | None, warned: bool) -> None:
    log = ReplicaLog(ORDERS, 400, 0, moving=True)
    place = LogDir(1, "/disk2", None, (log,), 10_000, free)

    shortage = shortage_of(place, log, 1000)

    assert (shortage is not None) == warned
    if shortage is not None:
        assert shortage.startswith(f"orders-0 needs 600 more bytes in /disk2, and {free} are free")
