"""CreateTopics, DeleteTopics, CreatePartitions."""

from dataclasses import replace

import pytest

from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Put, Remove
from headrace.cluster.topic import TopicRecord, random_topic_id
from headrace.cluster.topic_command import (
    NewPartitions,
    TopicDefaults,
    TopicToCreate,
    create_partitions,
    create_topics,
    delete_topics,
)

DEFAULTS = TopicDefaults(partitions=2, replication_factor=1)


def create(state, *topics, **fields):
    wanted = topics or (TopicToCreate(**fields),)
    plan = create_topics(state, wanted, defaults=DEFAULTS)
    return [plan.outcomes[topic.name] for topic in wanted]


def existing(state, name="orders", **fields):
    [topic] = create(state, name=name, **fields)
    assert isinstance(topic, TopicRecord), topic
    state.apply(Put(topic))
    return topic


def refused(outcome):
    assert isinstance(outcome, Rejection), outcome
    return outcome.error


class TestCreateTopics:
    def test_the_defaults_fill_what_is_left_open(self, one_broker):
        [topic] = create(one_broker, name="orders")

        assert len(topic.partitions) == 2
        assert topic.partitions[0].replicas == (1,)
        assert topic.partitions[0].leader == 1
        assert topic.partitions[0].isr == (1,)
        assert topic.partitions[0].leader_epoch == 0

    def test_a_command_changes_nothing_itself(self, one_broker):
        plan = create_topics(one_broker, [TopicToCreate(name="orders")], defaults=DEFAULTS)

        assert plan.changes == [Put(plan.outcomes["orders"])]
        assert one_broker.topics == {}

    def test_every_topic_has_its_own_id(self, one_broker):
        first, second = create(one_broker, TopicToCreate(name="a"), TopicToCreate(name="b"))

        assert first.topic_id != second.topic_id

    def test_replicas_are_spread(self, three_brokers):
        [topic] = create(three_brokers, name="orders", partitions=6, replication_factor=3)

        leaders = [partition.leader for partition in topic.partitions]
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
        assert all(set(partition.replicas) == {1, 2, 3} for partition in topic.partitions)

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü", "x" * 250])
    def test_a_name_must_be_able_to_be_a_directory(self, one_broker, name):
        [outcome] = create(one_broker, name=name)

        assert refused(outcome) is ClusterError.INVALID_TOPIC_EXCEPTION

    def test_a_topic_is_created_once(self, one_broker):
        existing(one_broker)

        assert refused(create(one_broker, name="orders")[0]) is ClusterError.TOPIC_ALREADY_EXISTS

    def test_names_that_look_alike_in_metrics_collide(self, one_broker):
        existing(one_broker, "my.orders")

        [outcome] = create(one_broker, name="my_orders")

        assert refused(outcome) is ClusterError.INVALID_TOPIC_EXCEPTION
        assert "'my.orders'" in outcome.message

    def test_names_that_collide_within_a_request_do_too(self, one_broker):
        first, second = create(one_broker, TopicToCreate(name="a.b"), TopicToCreate(name="a_b"))

        assert isinstance(first, TopicRecord)
        assert refused(second) is ClusterError.INVALID_TOPIC_EXCEPTION

    def test_a_name_that_is_free_again_does_not_collide(self, one_broker):
        topic = existing(one_broker, "a.b")
        one_broker.apply(Remove(topic))

        assert isinstance(create(one_broker, name="a_b")[0], TopicRecord)

    def test_a_topic_stands_once_in_a_request(self, one_broker):
        outcomes = create(one_broker, TopicToCreate(name="a"), TopicToCreate(name="a"))

        assert {refused(outcome) for outcome in outcomes} == {ClusterError.INVALID_REQUEST}

    def test_one_bad_topic_does_not_harm_the_others(self, one_broker):
        good, bad = create(one_broker, TopicToCreate(name="good"), TopicToCreate(name="b/ad"))

        assert isinstance(good, TopicRecord)
        assert isinstance(bad, Rejection)

    @pytest.mark.parametrize("count", [0, -2])
    def test_a_topic_has_a_partition(self, one_broker, count):
        [outcome] = create(one_broker, name="orders", partitions=count)

        assert refused(outcome) is ClusterError.INVALID_PARTITIONS

    def test_a_request_has_a_limit_over_all_its_topics(self, one_broker):
        first, second = create(
            one_broker,
            TopicToCreate(name="a", partitions=9_000),
            TopicToCreate(name="b", partitions=1_001),
        )

        assert isinstance(first, TopicRecord)
        assert refused(second) is ClusterError.POLICY_VIOLATION

    def test_a_request_may_reach_its_limit(self, one_broker):
        outcomes = create(
            one_broker,
            TopicToCreate(name="a", partitions=9_000),
            TopicToCreate(name="b", partitions=1_000),
        )

        assert all(isinstance(each, TopicRecord) for each in outcomes)

    @pytest.mark.parametrize(("count", "fits"), [(10_000, True), (10_001, False)])
    def test_assigned_partitions_have_the_same_limit(self, one_broker, count, fits):
        assignments = dict.fromkeys(range(count), (1,))

        [outcome] = create(one_broker, name="orders", assignments=assignments)

        assert isinstance(outcome, TopicRecord) is fits
        assert fits or refused(outcome) is ClusterError.POLICY_VIOLATION

    def test_small_topics_begin_on_different_brokers(self, three_brokers):
        existing(three_brokers, "first", partitions=1)

        created = create(
            three_brokers, *(TopicToCreate(name=name, partitions=1) for name in ("a", "b"))
        )

        leaders = [topic.partitions[0].leader for topic in created]
        assert sorted([*leaders, three_brokers.topics["first"].partitions[0].leader]) == [1, 2, 3]

    @pytest.mark.parametrize("factor", [0, -2, 2])
    def test_replicas_need_brokers(self, one_broker, factor):
        [outcome] = create(one_broker, name="orders", replication_factor=factor)

        assert refused(outcome) is ClusterError.INVALID_REPLICATION_FACTOR

    @pytest.mark.parametrize(
        ("configs", "part"),
        [
            ({"retention.ms": "soon"}, "retention.ms cannot be 'soon'"),
            ({"retenton.ms": "1"}, "did you mean retention.ms?"),
            ({"retention.ms": None}, "retention.ms has no value"),
            ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "1"}, "cannot be above"),
        ],
    )
    def test_configs_are_checked(self, one_broker, configs, part):
        [outcome] = create(one_broker, name="orders", configs=configs)

        assert refused(outcome) is ClusterError.INVALID_CONFIG
        assert part in outcome.message

    def test_configs_are_kept_as_written(self, one_broker):
        [topic] = create(one_broker, name="orders", configs={"cleanup.policy": "compact"})

        assert topic.configs == {"cleanup.policy": "compact"}


class TestManualAssignment:
    def test_it_is_taken_as_it_is(self, three_brokers):
        [topic] = create(three_brokers, name="orders", assignments={1: (1, 3), 0: (3, 2)})

        assert [partition.replicas for partition in topic.partitions] == [(3, 2), (1, 3)]
        assert [partition.leader for partition in topic.partitions] == [3, 1]

    @pytest.mark.parametrize("field", ["partitions", "replication_factor"])
    def test_counts_are_unset_beside_it(self, three_brokers, field):
        [outcome] = create(three_brokers, name="orders", assignments={0: (1,)}, **{field: 1})

        assert refused(outcome) is ClusterError.INVALID_REQUEST

    @pytest.mark.parametrize(
        "assignments",
        [
            {1: (1,)},
            {0: (1,), 2: (1,)},
            {0: ()},
            {0: (1, 1)},
            {0: (1, 2), 1: (1,)},
            {0: (7,)},
        ],
    )
    def test_it_must_make_sense(self, three_brokers, assignments):
        [outcome] = create(three_brokers, name="orders", assignments=assignments)

        assert refused(outcome) is ClusterError.INVALID_REPLICA_ASSIGNMENT


class TestDeleteTopics:
    def test_a_topic_goes(self, one_broker):
        topic = existing(one_broker)

        plan = delete_topics(one_broker, ["orders"])

        assert plan.changes == [Remove(topic)]
        assert plan.outcomes == {"orders": topic}

    def test_a_topic_that_is_named_twice_goes_once(self, one_broker):
        topic = existing(one_broker)

        assert delete_topics(one_broker, ["orders", "orders"]).changes == [Remove(topic)]

    def test_a_topic_that_is_not_there_is_unknown(self, one_broker):
        plan = delete_topics(one_broker, ["orders"])

        assert refused(plan.outcomes["orders"]) is ClusterError.UNKNOWN_TOPIC_OR_PARTITION
        assert plan.changes == []

    def test_a_topic_goes_by_its_id(self, one_broker):
        topic = existing(one_broker)

        plan = delete_topics(one_broker, ["orders"], ids={"orders": topic.topic_id})

        assert plan.changes == [Remove(topic)]

    @pytest.mark.parametrize("there_is_another", [False, True])
    def test_an_id_that_has_lost_its_name_is_unknown(self, one_broker, there_is_another):
        if there_is_another:
            existing(one_broker)

        plan = delete_topics(one_broker, ["orders"], ids={"orders": random_topic_id()})

        assert refused(plan.outcomes["orders"]) is ClusterError.UNKNOWN_TOPIC_ID
        assert plan.changes == []


class TestCreatePartitions:
    def grow(self, state, **fields):
        return create_partitions(state, [NewPartitions(name="orders", **fields)]).outcomes["orders"]

    def test_a_topic_grows_and_keeps_what_it_has(self, three_brokers):
        before = existing(three_brokers)

        topic = self.grow(three_brokers, total=5)

        assert len(topic.partitions) == 5
        assert topic.partitions[:2] == before.partitions
        assert topic.topic_id == before.topic_id

    def test_new_partitions_have_as_many_replicas_as_a_move_will_leave(self, three_brokers):
        before = existing(three_brokers)
        moving = replace(before.partitions[0], replicas=(2, 3, 1), adding=(2, 3), removing=(1,))
        three_brokers.apply(Put(replace(before, partitions=(moving, before.partitions[1]))))

        topic = self.grow(three_brokers, total=3)

        assert len(topic.partitions[2].replicas) == 2

    def test_new_partitions_can_be_assigned(self, three_brokers):
        existing(three_brokers)

        topic = self.grow(three_brokers, total=4, assignments=[(3,), (2,)])

        assert [partition.leader for partition in topic.partitions[2:]] == [3, 2]

    @pytest.mark.parametrize("total", [0, 1, 2])
    def test_a_topic_never_shrinks(self, three_brokers, total):
        existing(three_brokers)

        outcome = self.grow(three_brokers, total=total)

        assert refused(outcome) is ClusterError.INVALID_PARTITIONS
        assert "has 2 partitions already" in outcome.message

    @pytest.mark.parametrize("assignments", [[(1,)], [(1,), (9,)], [(1,), (1, 2)]])
    def test_assignments_must_fit(self, three_brokers, assignments):
        existing(three_brokers)

        outcome = self.grow(three_brokers, total=4, assignments=assignments)

        assert refused(outcome) is ClusterError.INVALID_REPLICA_ASSIGNMENT

    def test_an_unknown_topic_does_not_grow(self, three_brokers):
        outcome = self.grow(three_brokers, total=4)

        assert refused(outcome) is ClusterError.UNKNOWN_TOPIC_OR_PARTITION

    def test_there_is_a_limit(self, three_brokers):
        existing(three_brokers)

        assert refused(self.grow(three_brokers, total=10_003)) is ClusterError.POLICY_VIOLATION

    @pytest.mark.parametrize(("total", "fits"), [(5_002, True), (5_003, False)])
    def test_the_limit_is_over_all_topics(self, three_brokers, total, fits):
        existing(three_brokers)
        existing(three_brokers, "more")
        wanted = [
            NewPartitions(name="orders", total=5_002),
            NewPartitions(name="more", total=total),
        ]

        outcome = create_partitions(three_brokers, wanted).outcomes["more"]

        assert isinstance(outcome, TopicRecord) is fits

    def test_new_partitions_go_on_round_the_brokers(self, three_brokers):
        before = existing(three_brokers, partitions=2)

        topic = self.grow(three_brokers, total=3)

        assert {each.leader for each in (*before.partitions, topic.partitions[2])} == {1, 2, 3}

    def test_new_partitions_need_as_many_brokers(self, three_brokers):
        existing(three_brokers, replication_factor=3)
        three_brokers.apply(Remove(three_brokers.brokers[3]))

        outcome = self.grow(three_brokers, total=3)

        assert refused(outcome) is ClusterError.INVALID_REPLICATION_FACTOR

    def test_a_change_is_one_topic(self, three_brokers):
        existing(three_brokers)

        plan = create_partitions(three_brokers, [NewPartitions(name="orders", total=3)])

        assert plan.changes == [Put(plan.outcomes["orders"])]

    def test_a_topic_stands_once_in_a_request(self, three_brokers):
        existing(three_brokers)
        twice = [NewPartitions(name="orders", total=3), NewPartitions(name="orders", total=4)]

        plan = create_partitions(three_brokers, twice)

        assert refused(plan.outcomes["orders"]) is ClusterError.INVALID_REQUEST
