"""The topics of a Metadata response as bytes, kept until something in them changes.

Describing 10,000 partitions takes most of a tenth of a second, and clients ask again and again: all
at once when a broker came or went. So it is done in turns, with others on the loop in between. A
description depends on the topic's record, on which of its partitions this broker has open, and on
which brokers run: `TopicTable` counts changes of all of these. A stranded partition is described
otherwise, too, but then no Metadata is answered at all (`Dispatch`).
"""

from typing import Any

from headrace.broker.loop_turn import LoopTurn
from headrace.broker.membership.cluster_view import ClusterView
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.wire.api import ApiKey
from headrace.wire.message import pack_response_item
from headrace.wire.packer import PackedItems

# Clients of different ages speak different versions; few at a time.
_MAX_VERSIONS = 4


class PackedTopics:
    """Packs topics for Metadata, each once per version of the API.

    Threads: event loop only.
    """

    def __init__(self, topics: TopicTable, view: ClusterView) -> None:
        self._topics = topics
        self._view = view
        # By the API's version: all topics, and the table's version that they are of.
        self._all: dict[int, tuple[int, PackedItems]] = {}

    async def in_turns(self, version: int) -> PackedItems:
        """Return what `all` does. Topics that are not packed yet are packed in turns."""
        if self._known(version) is None:
            turn = LoopTurn()
            for topic in list(self._topics):
                self.one(topic, version)
                await turn.pause_if_over()
        return self.all(version)  # what has changed meanwhile is packed here

    def all(self, version: int) -> PackedItems:
        """Return every topic of the cluster, in the API's version `version`."""
        known = self._known(version)
        if known is not None:
            return known
        packed = PackedItems(
            len(self._topics), b"".join([self.one(topic, version) for topic in self._topics])
        )
        if version not in self._all and len(self._all) >= _MAX_VERSIONS:
            self._all.clear()
        self._all[version] = (self._topics.version, packed)
        return packed

    def _known(self, version: int) -> PackedItems | None:
        known = self._all.get(version)
        return known[1] if known is not None and known[0] == self._topics.version else None

    def one(self, topic: HostedTopic, version: int) -> bytes:
        """Return one topic, in the API's version `version`."""
        packed = topic.packed.get(version)
        if packed is None:
            packed = pack_response_item(ApiKey.METADATA, version, "topics", self.describe(topic))
            if len(topic.packed) >= _MAX_VERSIONS:
                topic.packed.clear()
            topic.packed[version] = packed
        return packed

    def describe(self, topic: HostedTopic) -> dict[str, Any]:
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.internal,
            "partitions": [
                self._view.describe_partition(topic, index)
                for index in range(len(topic.partitions))
            ],
        }
