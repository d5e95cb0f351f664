"""The ids of topics among offsets."""

import json
from uuid import UUID

from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_json import load_offsets, read_offsets
from headrace.spark.source.topic_ids import TopicIds

A, B = UUID(int=1), UUID(int=2)
BOTH = TopicIds("east", {"clicks": A, "views": B})


def test_what_spark_hands_back_is_what_it_was_given() -> None:
    stored = {"clicks": {"0": 5}, **BOTH.dump({"views", "clicks", "other"})}

    assert TopicIds.load(json.loads(json.dumps(stored))) == BOTH
    assert TopicIds.load({"clicks": {"0": 5}}) == TopicIds()


def test_the_text_does_not_depend_on_the_order() -> None:
    turned = TopicIds("east", {"views": B, "clicks": A})

    assert json.dumps(BOTH.dump(["views", "clicks"])) == json.dumps(
        turned.dump(["clicks", "views"])
    )


def test_readers_of_offsets_see_none_in_them() -> None:
    stored = {"clicks": {"0": 5}, **BOTH.dump({"clicks"})}

    assert load_offsets(stored) == {TopicPartition("clicks", 0): 5}
    assert read_offsets("startingOffsets", json.dumps(stored)) == load_offsets(stored)


def test_only_topics_with_offsets_have_ids() -> None:
    assert TopicIds.load(BOTH.dump({"views"})) == TopicIds("east", {"views": B})
    assert BOTH.dump(()) == {}


def test_a_name_that_is_no_id_is_not_looked_at() -> None:
    assert TopicIds.load({"#east": {}, "clicks#7": {}}) == TopicIds("east", {})


def test_another_id_is_another_topic() -> None:
    assert BOTH.replaced_in(TopicIds("east", {"clicks": B, "views": B})) == {"clicks": B}
    assert BOTH.replaced_in(TopicIds("east", {})) == {}
    assert TopicIds().replaced_in(BOTH) == {}


def test_the_ids_of_another_cluster_are_not_compared() -> None:
    copied = TopicIds("west", {"clicks": B})

    assert BOTH.replaced_in(copied) == {}
    assert BOTH.completed_by(copied) == copied


def test_what_is_known_stays() -> None:
    known = TopicIds("east", {"clicks": A})

    assert known.completed_by(TopicIds("east", {"clicks": B, "views": B})) == BOTH
    assert known.completed_by(TopicIds()) == known
    assert TopicIds().completed_by(known) == known
