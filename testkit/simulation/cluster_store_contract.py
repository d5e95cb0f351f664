"""What every `ClusterStore` must do, as tests. A store's test class inherits them:

class TestLocalStore(ClusterStoreContract):
    @pytest.fixture
    def store(self, tmp_path): ...
"""

import pytest

from headrace.cluster.store import (
    MAX_NODE_BYTES,
    CheckNode,
    ClusterStore,
    CreateNode,
    DeleteNode,
    Node,
    UpdateNode,
)
from headrace.model.error import InvalidArgument, VersionConflict
from headrace.testing.readiness import wait_until


class ClusterStoreContract:
    """The rules on top of `headrace.cluster.store`, one test each. Needs the fixture `store`."""

    def test_a_node_that_was_never_created_is_not_there(self, store: ClusterStore) -> None:
        assert store.get("/topics/orders") is None

    def test_a_node_is_created_at_version_zero(self, store: ClusterStore) -> None:
        assert store.commit([CreateNode("/topics/orders", b"x")]) == [0]
        assert store.get("/topics/orders") == Node("/topics/orders", b"x", 0)

    def test_every_update_adds_one(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        assert store.commit([UpdateNode("/topics/orders", b"y", 0)]) == [1]
        assert store.commit([UpdateNode("/topics/orders", b"z")]) == [2]
        assert store.get("/topics/orders") == Node("/topics/orders", b"z", 2)

    def test_put_creates_and_replaces(self, store: ClusterStore) -> None:
        assert store.put("/topics/orders", b"x", None) == 0
        assert store.put("/topics/orders", b"y", 0) == 1

    def test_a_deleted_node_is_gone(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        assert store.commit([DeleteNode("/topics/orders", 0)]) == [-1]
        assert store.get("/topics/orders") is None

    def test_what_exists_is_not_created(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        with pytest.raises(VersionConflict):
            store.commit([CreateNode("/topics/orders", b"y")])

    def test_another_version_is_not_replaced(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        with pytest.raises(VersionConflict):
            store.commit([UpdateNode("/topics/orders", b"y", 5)])

    def test_another_version_is_not_deleted(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        with pytest.raises(VersionConflict):
            store.commit([DeleteNode("/topics/orders", 5)])

    def test_what_is_not_there_is_not_changed(self, store: ClusterStore) -> None:
        with pytest.raises(VersionConflict):
            store.commit([UpdateNode("/topics/orders", b"y")])
        with pytest.raises(VersionConflict):
            store.commit([DeleteNode("/topics/orders")])

    def test_a_commit_with_one_conflict_does_nothing(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        with pytest.raises(VersionConflict):
            store.commit(
                [CreateNode("/topics/clicks", b"x"), UpdateNode("/topics/orders", b"y", 9)]
            )

        assert store.get("/topics/clicks") is None
        assert store.get("/topics/orders") == Node("/topics/orders", b"x", 0)

    def test_writes_of_one_commit_see_the_ones_before(self, store: ClusterStore) -> None:
        versions = store.commit(
            [CreateNode("/topics/orders", b"x"), UpdateNode("/topics/orders", b"y", 0)]
        )

        assert versions == [0, 1]
        assert store.get("/topics/orders") == Node("/topics/orders", b"y", 1)

    def test_a_check_that_holds_changes_nothing(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        assert store.commit([CheckNode("/topics/orders", 0), CreateNode("/topics/b", b"y")]) == [
            0,
            0,
        ]
        assert store.get("/topics/orders") == Node("/topics/orders", b"x", 0)

    def test_a_check_that_does_not_hold_fails_the_commit(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/topics/orders", b"x")])

        for check in (CheckNode("/topics/orders", 1), CheckNode("/topics/clicks", 0)):
            with pytest.raises(VersionConflict):
                store.commit([check, CreateNode("/topics/b", b"y")])

        assert store.get("/topics/b") is None

    def test_an_ephemeral_node_can_be_taken_over_at_once(self, store: ClusterStore) -> None:
        store.commit([CreateNode("/brokers/1", b"x", ephemeral=True)])

        store.commit([DeleteNode("/brokers/1"), CreateNode("/brokers/1", b"y", ephemeral=True)])

        assert store.get("/brokers/1") == Node("/brokers/1", b"y", 0, ephemeral=True)

    def test_many_nodes_are_read_at_once(self, store: ClusterStore) -> None:
        paths = [f"/topics/t{number:04}" for number in range(1_200)]
        for start in range(0, len(paths), 300):
            store.commit([CreateNode(path, path.encode()) for path in paths[start : start + 300]])

        found = store.get_all([*paths, "/topics/missing", "/nothing/here"])

        assert found == {path: Node(path, path.encode(), 0) for path in paths}
        assert store.get_all([]) == {}

    def test_a_kind_is_scanned_by_name(self, store: ClusterStore) -> None:
        store.commit(
            [
                CreateNode("/topics/b", b"2"),
                CreateNode("/topics/a", b"1"),
                CreateNode("/brokers/1", b"3"),
            ]
        )

        assert [node.path for node in store.scan("topics")] == ["/topics/a", "/topics/b"]
        assert store.scan("quotas") == []

    def test_a_watcher_gets_the_events_of_its_kind(self, store: ClusterStore) -> None:
        events: list[tuple[str, Node | None]] = []
        store.watch("topics", lambda path, node: events.append((path, node)))

        store.commit([CreateNode("/topics/orders", b"x"), CreateNode("/brokers/1", b"z")])
        wait_until(lambda: bool(events), what="the event of the creation")
        store.commit([DeleteNode("/topics/orders")])

        wait_until(
            lambda: events[-1:] == [("/topics/orders", None)], what="the event of the deletion"
        )
        assert {path for path, _ in events} == {"/topics/orders"}

    def test_a_stopped_watcher_gets_no_event(self, store: ClusterStore) -> None:
        events: list[str] = []
        stop = store.watch("topics", lambda path, node: events.append(path))
        stop()

        store.commit([CreateNode("/topics/orders", b"x")])

        assert events == []

    @pytest.mark.parametrize(
        "path", ["", "topics/a", "/topics", "/topics/", "/topics/a/b", "//a", "/topics/ü"]
    )
    def test_a_path_has_two_parts(self, store: ClusterStore, path: str) -> None:
        with pytest.raises(InvalidArgument, match="/kind/name"):
            store.commit([CreateNode(path, b"")])

    def test_a_node_has_a_size_limit(self, store: ClusterStore) -> None:
        with pytest.raises(InvalidArgument, match=f"at most {MAX_NODE_BYTES}"):
            store.commit([CreateNode("/topics/orders", bytes(MAX_NODE_BYTES + 1))])
