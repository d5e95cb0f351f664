from headrace.groups.consumer.member_metadata import updated_metadata
from headrace.groups.consumer.message import ConsumerHeartbeat


def test_what_a_heartbeat_does_not_say_stays() -> None:
    joined = ConsumerHeartbeat(
        group_id="g",
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=7,
        subscribed_topic_names=("b", "a", "b"),
        subscribed_topic_regex="x.*",
        server_assignor="range",
    )
    first = updated_metadata(None, joined)

    assert (first.rack_id, first.subscribed_topic_names) == ("r", ("a", "b"))
    assert updated_metadata(first, ConsumerHeartbeat(group_id="g", member_epoch=1)) == first


def test_what_a_heartbeat_says_counts() -> None:
    first = updated_metadata(
        None, ConsumerHeartbeat(group_id="g", rack_id="r", server_assignor="range")
    )

    moved = updated_metadata(
        first,
        ConsumerHeartbeat(group_id="g", member_epoch=1, rack_id="s", server_assignor="uniform"),
    )

    assert (moved.rack_id, moved.server_assignor) == ("s", "uniform")
