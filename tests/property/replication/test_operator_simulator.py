"""Random histories in which logs move between directories, quotas of clients change, and a group
passes from one protocol to the other."""

from collections import Counter

import pytest
import structlog

from headrace.broker.membership import metadata_applier
from headrace.broker.replica import log_storage
from headrace.cluster.quota import ClientQuota
from headrace.groups import group_table
from headrace.groups.consumer import group as consumer_group
from headrace.groups.consumer.reconciliation import reconcile
from headrace.groups.effect import GroupEffects
from headrace.groups.migration.classic_membership import ClassicMembership
from headrace.groups.registry import GroupRegistry
from testkit.simulation.inline_moves import InlineMoves
from testkit.simulation.operator_simulator import OperatorSimulator
from testkit.simulation.virtual_cluster import Violation

SEEDS = range(12)
NOTHING = GroupEffects()


@pytest.fixture(autouse=True)
def quiet():
    """Brokers that are broken all the time have much to log."""
    with structlog.testing.capture_logs():
        yield


def test_no_history_breaks_what_must_hold(monkeypatch):
    ended = Counter()
    count = InlineMoves._count

    def counted(moves):
        ended["moves"] += 1
        count(moves)

    monkeypatch.setattr(InlineMoves, "_count", counted)
    for seed in SEEDS:
        simulator = OperatorSimulator(seed)
        simulator.run()
        ended.update(simulator.administrator.done)
        if simulator.group is not None:
            ended.update(simulator.group.passed)

    assert ended["moves"] > 10
    assert ended["quota"] > 10
    assert ended["classic"] > 0
    assert ended["consumer"] > 0


def test_offsets_of_a_deleted_topic_that_cannot_be_deleted_yet_are_not_served():
    """Too few replicas were in sync when the coordinator loaded them, and it did not try again."""
    OperatorSimulator(301).run()


def violation_of(seeds, *, first=None):
    """Play histories until one breaks a rule.

    Args:
        first: one that is known to, which saves playing those before it. Where a change of the
            code makes another history of it, the others are played.
    """
    with pytest.raises(Violation) as found:
        for seed in seeds if first is None else (first, *seeds):
            OperatorSimulator(seed).run()
    return str(found.value).splitlines()[0]


class TestWhatIsFoundOut:
    """A part that is taken out breaks a rule within some histories."""

    def test_a_move_that_a_crash_interrupted_and_no_start_begins_again(self, monkeypatch):
        monkeypatch.setattr(log_storage, "take_futures", lambda directories: [])

        assert "half a copy" in violation_of(range(20, 120), first=26)

    def test_a_coordinator_that_keeps_offsets_of_a_deleted_topic(self, monkeypatch):
        monkeypatch.setattr(GroupRegistry, "suspect_topics", lambda registry: frozenset())
        monkeypatch.setattr(GroupRegistry, "forget_topics", lambda registry, topics: NOTHING)

        assert "of a topic that was deleted" in violation_of(range(60), first=10)

    def test_a_quota_that_only_a_start_applies(self, monkeypatch):
        monkeypatch.setitem(metadata_applier._APPLIERS, ClientQuota, lambda applier: None)

        assert "throttles clients by" in violation_of(range(20))

    def test_a_coordinator_that_assigns_what_another_member_still_holds(self, monkeypatch):
        def hasty(current, **known):
            return reconcile(current, **known | {"held_by_others": frozenset()})

        monkeypatch.setattr(consumer_group, "reconcile", hasty)

        assert "two members own a partition, both sure of it" in violation_of(range(0, 40, 2))

    def test_a_coordinator_that_tells_no_member_to_join_again(self, monkeypatch):
        monkeypatch.setattr(
            ClassicMembership, "_has_a_step_to_do", lambda members, member_id: False
        )

        assert "group readers" in violation_of(range(0, 40, 2))

    def test_a_group_that_does_not_become_classic_again(self, monkeypatch):
        monkeypatch.setattr(group_table, "downgraded", lambda *_: None)

        assert "has not passed to the other protocol" in violation_of(range(0, 40, 2))
