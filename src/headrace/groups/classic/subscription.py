"""The one thing a coordinator reads out of a classic member's metadata: its topics.

The bytes belong to the clients (`ConsumerProtocolSubscription`, versions 0 to 3 and later
ones, which only append fields). Only groups of protocol type `consumer` use them, and
nothing but the expiry and the deletion of offsets depends on them.
"""

from headrace.groups.primitive_codec import MalformedRecord, RecordReader

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics named in `metadata`, or None when these are not a consumer's bytes."""
    reader = RecordReader(metadata)
    try:
        if reader.int16() < 0:
            return None
        return frozenset(reader.array(reader.string))
    except MalformedRecord:
        return None
