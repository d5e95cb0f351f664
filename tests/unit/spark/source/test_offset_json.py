"""Offsets in the connector's JSON."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.ids import TopicPartition
from headrace.spark.source.offset_json import (
    dump_offsets,
    load_offsets,
    read_offsets,
    read_partitions,
)

OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1),
    max_size=12,
)


@settings(deadline=None)
@given(OFFSETS)
def test_what_spark_hands_back_is_what_it_was_given(offsets: dict[TopicPartition, int]) -> None:
    assert load_offsets(json.loads(json.dumps(dump_offsets(offsets)))) == offsets


def test_the_text_does_not_depend_on_the_order() -> None:
    a, b, c = TopicPartition("b", 10), TopicPartition("b", 9), TopicPartition("a", 0)

    assert json.dumps(dump_offsets({a: 1, b: 2, c: 3})) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'


def test_what_the_connector_wrote_is_read() -> None:
    assert load_offsets(json.loads('{"t":{"1":5,"0":4}}')) == {
        TopicPartition("t", 0): 4,
        TopicPartition("t", 1): 5,
    }


def test_a_users_text_is_read() -> None:
    assert read_offsets("startingOffsets", '{"t": {"3": -2}}') == {TopicPartition("t", 3): -2}
    assert read_partitions("assign", '{"t": [1, 0, 1]}') == [
        TopicPartition("t", 0),
        TopicPartition("t", 1),
    ]
