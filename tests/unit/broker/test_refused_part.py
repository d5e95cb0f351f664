"""What is logged and counted of a response that refuses something."""

from typing import Any

from headrace.broker.refused_part import refused_in


def refused(fields: dict[str, Any]) -> list[str]:
    return [str(each) for each in refused_in(fields)]


def test_a_partition_is_named_with_its_topic() -> None:
    partitions = [{"partition_index": 0, "error_code": 6}, {"partition_index": 1, "error_code": 0}]

    assert refused({"topics": [{"name": "orders", "partitions": partitions}]}) == [
        "orders-0 NOT_LEADER_OR_FOLLOWER"
    ]


def test_a_group_comes_before_its_topics() -> None:
    partition = {"partition": 3, "error_code": 29, "error_message": "not yours"}
    topics = [{"name": "", "topic_id": "id", "partitions": (partition,)}]

    assert refused({"groups": [{"group_id": "readers", "topics": topics}]}) == [
        "readers id-3 TOPIC_AUTHORIZATION_FAILED (not yours)"
    ]


def test_a_whole_response_has_no_name_and_an_unknown_code_is_a_number() -> None:
    assert refused({"error_code": 9999, "error_message": None}) == ["9999"]


def test_a_list_that_holds_no_parts_is_passed_over() -> None:
    assert refused({"ids": [1, 2], "node": {"error_code": 3}}) == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_errors_are_found_behind_parts_that_are_packed() -> None:
    fields = {"results": [b"packed", {"resource_name": "a", "error_code": 3}, b"packed"]}

    assert [each.part for each in refused_in(fields)] == ["a"]
    assert list(refused_in(fields, most=1)) == []
