"""`TopicLives`: tells a topic from another of the same name that was created after its deletion.

A store numbers the versions of a node from 0 again when it is deleted and created again (rule 2 of
`ClusterStore`). A broker that missed both would find the version that it expects, and replace the
new topic's record by the deleted one's. So every topic has a second node, named by its id, which
lives exactly as long as the topic: it is written in the same commits, and never for another topic.
"""

from collections.abc import Iterable
from uuid import UUID

from headrace.cluster.store import (
    CheckNode,
    ClusterStore,
    CreateNode,
    DeleteNode,
    UpdateNode,
    Write,
    node_path,
    path_parts,
)
from headrace.cluster.topic import TopicRecord

KIND = "topic_ids"
_FIRST_VERSION = 0


class TopicLives:
    """The ids whose nodes this broker has seen. One thread."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._seen: set[UUID] = set()

    def load(self) -> None:
        """Read all ids; the caller reads the topics after that.

        One that is created in between is not seen: its next change conflicts, and all is read
        again. The other way round, one that is deleted in between would look like one of an
        earlier release.
        """
        self._seen = {UUID(path_parts(node.path)[0]) for node in self._store.scan(KIND)}

    def without_node(self, topics: Iterable[TopicRecord]) -> list[TopicRecord]:
        """Return the topics that have no node of their id. They may just have been deleted."""
        unseen = {life_path(each): each for each in topics if each.topic_id not in self._seen}
        found = self._store.get_all(unseen) if unseen else {}
        self._seen.update(unseen[path].topic_id for path in found)
        return [each for path, each in unseen.items() if path not in found]

    def write_beside(self, write: Write, topic: TopicRecord) -> Write | None:
        """Return what a commit must write beside a topic's node; None for nothing.

        A topic of an earlier release has no second node. It gets one with its next change.
        """
        path = life_path(topic)
        seen = topic.topic_id in self._seen
        match write:
            case DeleteNode():
                return DeleteNode(path, _FIRST_VERSION) if seen else None
            case UpdateNode() if seen:
                return CheckNode(path, _FIRST_VERSION)
            case _:
                return CreateNode(path, b"")

    def committed(self, write: Write, topic: TopicRecord) -> None:
        """Take a write of a topic's node, and what was beside it, as done."""
        if isinstance(write, DeleteNode):
            self._seen.discard(topic.topic_id)
        else:
            self._seen.add(topic.topic_id)


def life_path(topic: TopicRecord) -> str:
    return node_path(KIND, str(topic.topic_id))
