"""What a KIP-848 member reports about itself, as its heartbeats change it."""

from headrace.groups.consumer.message import UNCHANGED_TIMEOUT_MS, ConsumerHeartbeat
from headrace.groups.record import MemberMetadata


def updated_metadata(known: MemberMetadata | None, request: ConsumerHeartbeat) -> MemberMetadata:
    """Return a member's metadata after a heartbeat; `known` is None for a new member."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    if known is None:
        known = MemberMetadata(
            instance_id=None,
            rack_id=None,
            client_id="",
            client_host="",
            subscribed_topic_names=(),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=UNCHANGED_TIMEOUT_MS,
            server_assignor=None,
        )
    timeout_ms = request.rebalance_timeout_ms
    same_timeout = timeout_ms == UNCHANGED_TIMEOUT_MS
    return MemberMetadata(
        instance_id=request.instance_id or known.instance_id,
        rack_id=request.rack_id or known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=(
            known.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        # An empty expression ends the subscription by regex.
        subscribed_topic_regex=known.subscribed_topic_regex if regex is None else regex or None,
        rebalance_timeout_ms=known.rebalance_timeout_ms if same_timeout else timeout_ms,
        server_assignor=request.server_assignor or known.server_assignor,
    )
