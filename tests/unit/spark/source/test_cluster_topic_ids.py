"""The ids of topics among offsets."""

import json
from uuid import UUID

from headrace.model.ids import TopicPartition
from headrace.spark.source.cluster_topic_ids import ClusterTopicIds
from headrace.spark.source.offset_json import load_offsets, read_offsets

A, B = UUID(int=1), UUID(int=2)
BOTH = ClusterTopicIds("east", {"clicks": A, "views": B})


def test_what_spark_hands_back_is_what_it_was_given() -> None:
    stored = {"clicks": {"0": 5}, **BOTH.dump({"views", "clicks", "other"})}

    assert ClusterTopicIds.load(json.loads(json.dumps(stored))) == BOTH
    assert ClusterTopicIds.load({"clicks": {"0": 5}}) == ClusterTopicIds()


def test_the_text_does_not_depend_on_the_order() -> None:
    turned = ClusterTopicIds("east", {"views": B, "clicks": A})

    assert json.dumps(BOTH.dump(["views", "clicks"])) == json.dumps(
        turned.dump(["clicks", "views"])
    )


def test_readers_of_offsets_see_none_in_them() -> None:
    stored = {"clicks": {"0": 5}, **BOTH.dump({"clicks"})}

    assert load_offsets(stored) == {TopicPartition("clicks", 0): 5}
    assert read_offsets("startingOffsets", json.dumps(stored)) == load_offsets(stored)


def test_only_topics_with_offsets_have_ids() -> None:
    assert ClusterTopicIds.load(BOTH.dump({"views"})) == ClusterTopicIds("east", {"views": B})
    assert BOTH.dump(()) == {}


def test_a_name_that_is_no_id_is_not_looked_at() -> None:
    assert ClusterTopicIds.load({"#east": {}, "clicks#7": {}}) == ClusterTopicIds("east", {})


def test_another_id_is_another_topic() -> None:
    assert BOTH.replaced_in(ClusterTopicIds("east", {"clicks": B, "views": B})) == {"clicks": B}
    assert BOTH.replaced_in(ClusterTopicIds("east", {})) == {}
    assert ClusterTopicIds().replaced_in(BOTH) == {}


def test_the_ids_of_another_cluster_are_not_compared() -> None:
    copied = ClusterTopicIds("west", {"clicks": B})

    assert BOTH.replaced_in(copied) == {}
    assert BOTH.completed_by(copied) == copied


def test_the_ids_of_some_topics_change() -> None:
    changed = BOTH.with_those_of(
        {"clicks", "gone"}, ClusterTopicIds("east", {"clicks": B, "views": A})
    )

    assert changed == ClusterTopicIds("east", {"clicks": B, "views": B})


def test_an_id_is_exchanged_for_another() -> None:
    assert BOTH.exchanged({A: B}) == ClusterTopicIds("east", {"clicks": B, "views": B})
    assert BOTH.exchanged({}) == BOTH


def test_what_is_known_stays() -> None:
    known = ClusterTopicIds("east", {"clicks": A})

    assert known.completed_by(ClusterTopicIds("east", {"clicks": B, "views": B})) == BOTH
    assert known.completed_by(ClusterTopicIds()) == known
    assert ClusterTopicIds().completed_by(known) == known
