"""`CommandRunner`: turns what a command decides into a commit, and the commit into state."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar

import structlog

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.entity import (
    KINDS,
    Entity,
    decode_entity,
    encode_entity,
    entity_path,
)
from headrace.cluster.partition_command import PartitionPlan
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Change, ClusterState, Put, Remove
from headrace.cluster.store import (
    MAX_COMMIT_BYTES,
    ClusterStore,
    CreateNode,
    DeleteNode,
    Node,
    UpdateNode,
    Write,
    node_path,
    node_problem,
    write_bytes,
)
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicPlan
from headrace.cluster.topic_life import TopicLives
from headrace.model.error import InvalidArgument, StorageError, VersionConflict
from headrace.model.ids import topic_name_problem

T = TypeVar("T")
_Prepared = tuple[Change, CreateNode | UpdateNode | DeleteNode]

_log = structlog.get_logger(__name__)

# Losing this often in a row means that another broker writes all the time.
_MAX_TRIES = 10
# More topics than these are read faster as a whole.
_MAX_SINGLE_READS = 100
# Half of a packet: what a write takes in it is an estimate.
_COMMIT_BYTES = MAX_COMMIT_BYTES // 2
# Another broker may have removed the reason a moment ago, and its watch event is still on the way.
_MAY_BE_STALE = frozenset(
    {
        ClusterError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ClusterError.INVALID_PARTITIONS,
        ClusterError.INVALID_REPLICATION_FACTOR,
        ClusterError.INVALID_REPLICA_ASSIGNMENT,
        ClusterError.NO_REASSIGNMENT_IN_PROGRESS,
        ClusterError.POLICY_VIOLATION,
        ClusterError.PREFERRED_LEADER_NOT_AVAILABLE,
        ClusterError.TOPIC_ALREADY_EXISTS,
        ClusterError.UNKNOWN_TOPIC_ID,
        ClusterError.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class CommandRunner:
    """Runs commands against the cluster store. One per controller.

    A command decides on `state`. The runner commits the changes, and only then applies them to
    `state`: a crash or a failed disk leaves store and memory as they were, or with the whole
    command done. When another writer was faster, the runner loads the state again and lets the
    command decide again. Before a command is refused for what `state` says, which no commit would
    compare, the runner reads what the refusal is about: a broker that has just joined, or a topic
    that another broker has just created, may not be in `state` yet.

    Thread rule: one thread.

    Attributes:
        state: the same object for ever; changed only by `adopt`.
    """

    def __init__(self, store: ClusterStore) -> None:
        """Load everything there is.

        Raises:
            CorruptLog: when a node does not hold what it should.
        """
        self._store = store
        self._versions: dict[str, int] = {}
        self._entities: dict[str, Entity] = {}
        # What each node held: one that holds it still is not decoded again.
        self._data: dict[str, bytes] = {}
        self._changes: list[Change] = []
        self._stale: bool
        self._lives = TopicLives(store)
        self.state = ClusterState()
        self.load()
        self._changes.clear()

    def load(self) -> None:
        """Read everything again; what differs from before is among the changes to take."""
        self._lives.load()
        nodes = {node.path: node for kind in KINDS for node in self._store.scan(kind)}
        self._stale = False
        for path in set(self._entities) - set(nodes):
            self.adopt(path, None, -1)
        for node in nodes.values():
            self._adopt_node(node)

    def catch_up(self, paths: Iterable[str]) -> None:
        """Read nodes again that other brokers may have changed.

        A watch event only names the path: what it carries may be older than a commit of ours.
        """
        wanted = sorted(set(paths))
        nodes = self._store.get_all(wanted)
        entities = {path: self._decoded(node) for path, node in nodes.items()}
        topics = [each for each in entities.values() if isinstance(each, TopicRecord)]
        for topic in self._lives.without_node(topics):
            # Deleted since, or of an earlier release, which has no node of its id.
            path = entity_path(topic)
            again = self._store.get(path)
            if again is None:
                del nodes[path]
            else:
                nodes[path], entities[path] = again, decode_entity(again)
        for path in wanted:
            node = nodes.get(path)
            if node is None:
                self.adopt(path, None, -1)
            else:
                self.adopt(path, entities[path], node.version)
                self._data[path] = node.data

    def _decoded(self, node: Node) -> Entity:
        """Return what a node holds, without decoding what it held before: after a commit of our own
        its watch fires as well."""
        known = self._entities.get(node.path)
        if known is not None and self._data.get(node.path) == node.data:
            return known
        return decode_entity(node)

    def _adopt_node(self, node: Node) -> None:
        if self._data.get(node.path) == node.data:
            self._versions[node.path] = node.version
            return
        self.adopt(node.path, decode_entity(node), node.version)
        self._data[node.path] = node.data

    def _read_again(self, refused: object) -> None:
        """Read what a refusal is about: its topics, and the brokers that run.

        All else only if that is not known, or is so much that one scan is faster.
        """
        topics = _refused_topics(refused)
        if topics is None or len(topics) > _MAX_SINGLE_READS:
            self.load()
            return
        brokers = {node.path: node for node in self._store.scan(BrokerRecord.KIND)}
        for broker in list(self.state.brokers.values()):
            path = entity_path(broker)
            if path not in brokers:
                self.adopt(path, None, -1)
        for node in brokers.values():
            self._adopt_node(node)
        self.catch_up(node_path(TopicRecord.KIND, name) for name in topics)

    def adopt(self, path: str, entity: Entity | None, version: int) -> None:
        """Apply what a node of the store holds; None for a node that is gone."""
        known = self._entities.get(path)
        self._data.pop(path, None)
        if entity is not None:
            self._versions[path] = version
            if entity == known:
                return
            self._entities[path] = entity
            change: Change = Put(entity)
        else:
            self._versions.pop(path, None)
            if known is None:
                return
            del self._entities[path]
            change = Remove(known)
        self.state.apply(change)
        self._changes.append(change)

    def take_changes(self) -> list[Change]:
        """Return the changes since the last call, of this and of other brokers."""
        changes, self._changes = self._changes, []
        return changes

    def run(
        self,
        decide: Callable[[], T],
        changes_of: Callable[[T], Sequence[Change]],
        checks_of: Callable[[T], Sequence[Write]] = lambda _: (),
        leave_out: Callable[[T, Change, str], None] | None = None,
    ) -> T:
        """Run one command.

        Args:
            decide: reads `state` and returns a decision; called again after a conflict.
            changes_of: the changes of a decision.
            checks_of: what must still hold in the store when they are committed.
            leave_out: notes in the decision that a change is not made, and why: its node would be
                too large. The others are committed, so that one topic does not hold up all.

        Raises:
            InvalidArgument: a change is too large, and cannot be left out; nothing was written.
            VersionConflict: other writers were faster, ten times in a row.
            StorageError: the store failed, and the commit may have been done.
        """
        fresh = self._stale
        if fresh:
            self.load()
        for _ in range(_MAX_TRIES):
            decided = decide()
            if not fresh and _may_be_stale(decided):
                self._read_again(decided)
                decided = decide()
            prepared = self._prepare(decided, changes_of(decided), leave_out)
            try:
                self._commit(prepared, checks_of(decided) if prepared else ())
            except VersionConflict:
                self.load()
                fresh = True
                continue
            except StorageError:
                # It may have been done (rule 5 of the store): load before the next command.
                self._stale = True
                raise
            return decided
        raise VersionConflict(
            f"{_MAX_TRIES} times another controller changed the cluster first: try again"
        )

    def _prepare(
        self,
        decided: T,
        changes: Sequence[Change],
        leave_out: Callable[[T, Change, str], None] | None,
    ) -> list[_Prepared]:
        """Return the changes that are to be made, each with what it writes."""
        prepared: list[_Prepared] = []
        for change in changes:
            if self._is_removed_already(change):
                continue
            write = self._write(change)
            data = b"" if isinstance(write, DeleteNode) else write.data
            problem = node_problem(write.path, data)
            if problem is None:
                prepared.append((change, write))
            elif leave_out is None:
                raise InvalidArgument(problem)
            else:
                _log.error("change_left_out", path=write.path, reason=problem)
                leave_out(decided, change, problem)
        return prepared

    def _commit(self, prepared: Sequence[_Prepared], checks: Sequence[Write] = ()) -> None:
        """Commit at once, or in as few commits as a packet of ZooKeeper's allows."""
        changes = [change for change, _ in prepared]
        writes = [write for _, write in prepared]
        beside = [self._write_beside(*each) for each in zip(changes, writes, strict=True)]
        sizes = [
            sum(map(write_bytes, (write, *more)))
            for write, more in zip(writes, beside, strict=True)
        ]
        for first, last in _pieces(sizes, sum(map(write_bytes, checks))):
            ahead = [*checks, *chain.from_iterable(beside[first:last])]
            versions = self._store.commit([*ahead, *writes[first:last]])[len(ahead) :]
            for change, write, version in zip(
                changes[first:last], writes[first:last], versions, strict=True
            ):
                deleted = isinstance(write, DeleteNode)
                if isinstance(change.entity, TopicRecord):
                    self._lives.committed(write, change.entity)
                self.adopt(write.path, None if deleted else change.entity, version)
                if isinstance(write, CreateNode | UpdateNode):
                    self._data[write.path] = write.data

    def _write_beside(self, change: Change, write: Write) -> Sequence[Write]:
        """Return what the commit holds for the life of a topic (`topic_life`)."""
        if not isinstance(change.entity, TopicRecord):
            return ()
        beside = self._lives.write_beside(write, change.entity)
        return () if beside is None else (beside,)

    def _is_removed_already(self, change: Change) -> bool:
        return isinstance(change, Remove) and entity_path(change.entity) not in self._versions

    def _write(self, change: Change) -> CreateNode | UpdateNode | DeleteNode:
        path = entity_path(change.entity)
        version = self._versions.get(path)
        if isinstance(change, Remove):
            return DeleteNode(path, version)
        data = encode_entity(change.entity)
        if version is None:
            return CreateNode(path, data, ephemeral=_ephemeral(change.entity))
        return UpdateNode(path, data, version)


def _may_be_stale(decided: object) -> bool:
    """Return whether anything is refused for what the cluster's state says."""
    match decided:
        case TopicPlan(outcomes=outcomes) | PartitionPlan(outcomes=outcomes):
            return any(map(_is_stale, outcomes.values()))
        case _:
            return _is_stale(decided)


def _is_stale(result: object) -> bool:
    return isinstance(result, Rejection) and not result.final and result.error in _MAY_BE_STALE


def _refused_topics(decided: object) -> set[str] | None:
    """Return the topics that were refused for what the state says; None if they are not known.

    No topic can have a name that is not allowed, so that nothing is read for it.
    """
    match decided:
        case TopicPlan(outcomes=by_name):
            names = {name for name, each in by_name.items() if _is_stale(each)}
        case PartitionPlan(outcomes=by_partition):
            names = {name.topic for name, each in by_partition.items() if _is_stale(each)}
        case Rejection(topic=str(name)):
            names = {name}
        case _:
            return None
    return {name for name in names if topic_name_problem(name) is None}


def _pieces(sizes: Sequence[int], checks_bytes: int = 0) -> list[tuple[int, int]]:
    """Return where to cut changes of these sizes, so that each piece is small enough for one
    commit, which holds the checks as well."""
    pieces: list[tuple[int, int]] = []
    first, total = 0, checks_bytes
    for number, size in enumerate(sizes):
        if number > first and total + size > _COMMIT_BYTES:
            pieces.append((first, number))
            first, total = number, checks_bytes
        total += size
    return [*pieces, (first, len(sizes))] if sizes else pieces


def _ephemeral(entity: Entity) -> bool:
    return isinstance(entity, BrokerRecord)
