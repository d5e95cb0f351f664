"""The store in ZooKeeper: the contract of all stores, and what comes with a session."""

from threading import Event

import pytest
from kazoo.handlers.threading import KazooTimeoutError

from headrace.cluster.store import (
    MAX_NODE_BYTES,
    CheckNode,
    CreateNode,
    DeleteNode,
    Node,
    UpdateNode,
)
from headrace.cluster.zookeeper.zookeeper_store import ZooKeeperStore
from headrace.model.error import InvalidArgument, StorageError, VersionConflict
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.zookeeper import ZooKeeper
from testkit.simulation.cluster_store_contract import ClusterStoreContract

# As long as the server allows: a commit waits for its answer no longer than a session lasts, and
# a slow disk may take seconds.
SESSION_MS = 10_000
# Where a session has to end.
SHORT_SESSION_MS = 1500


class TestContract(ClusterStoreContract):
    @pytest.fixture
    def store(self, ensemble):
        store = ZooKeeperStore.open(ensemble, session_ms=SESSION_MS)
        yield store
        store.close()


@pytest.fixture
def two(ensemble):
    stores = [ZooKeeperStore.open(ensemble, session_ms=SESSION_MS) for _ in range(2)]
    yield stores
    for store in stores:
        store.close()


class _TooLate:
    """An answer that comes, but after the one who waits for it gave up."""

    def __init__(self, answer):
        self._answer = answer

    def get(self, timeout):
        self._answer.get(timeout=timeout)
        raise KazooTimeoutError


class TestTwoStores:
    def test_one_sees_what_the_other_commits(self, two):
        one, other = two
        one.commit([CreateNode("/topics/orders", b"x")])

        assert other.scan("topics") == [Node("/topics/orders", b"x", 0)]

    def test_the_slower_of_two_writers_is_refused(self, two):
        one, other = two
        one.commit([CreateNode("/topics/orders", b"x")])
        one.commit([UpdateNode("/topics/orders", b"y", 0)])

        with pytest.raises(VersionConflict):
            other.commit([UpdateNode("/topics/orders", b"z", 0)])

    def test_a_watcher_hears_of_every_kind_of_change(self, two):
        one, other = two
        heard = []
        other.watch("topics", lambda path, node: heard.append(node and node.data))

        for number, write in enumerate(
            [CreateNode("/topics/a", b"1"), UpdateNode("/topics/a", b"2"), DeleteNode("/topics/a")]
        ):
            one.commit([write])
            wait_until(lambda number=number: len(heard) > number, what="the event of a change")

        assert heard == [b"1", b"2", None]

    @pytest.mark.parametrize("learned", ["created", "read", "listed"])
    def test_a_watcher_hears_of_the_end_of_a_node_it_never_saw(self, two, learned):
        """The watch is busy while the node comes and goes, and finds the list as it was."""
        one, other = two
        heard, busy, go_on = [], Event(), Event()

        def hear(path, node):
            heard.append((path, node and node.data))
            if path == "/topics/first":
                busy.set()
                go_on.wait(20)

        one.watch("topics", hear)
        other.commit([CreateNode("/topics/first", b"")])
        assert busy.wait(20)
        (one if learned == "created" else other).commit([CreateNode("/topics/short", b"x")])
        if learned == "read":
            assert one.get("/topics/short")
        if learned == "listed":
            assert len(one.scan("topics")) == 2
        other.commit([DeleteNode("/topics/short")])
        go_on.set()

        wait_until(lambda: ("/topics/short", None) in heard, what="the end of the node")

    def test_a_recreated_ephemeral_node_belongs_to_whoever_created_it_last(self, two):
        one, other = two
        one.commit([CreateNode("/brokers/1", b"x", ephemeral=True)])
        other.commit([DeleteNode("/brokers/1"), CreateNode("/brokers/1", b"y", ephemeral=True)])

        one.close()

        assert other.get("/brokers/1") == Node("/brokers/1", b"y", 0, ephemeral=True)

    def test_ephemeral_nodes_go_with_the_store_that_made_them(self, two):
        one, other = two
        heard = []
        other.watch("brokers", lambda path, node: heard.append((path, node)))
        one.commit([CreateNode("/brokers/1", b"x", ephemeral=True)])
        wait_until(lambda: bool(heard), what="the event of the node")

        one.close()

        wait_until(lambda: heard[-1:] == [("/brokers/1", None)], what="the event of the end")
        assert other.get("/brokers/1") is None


class TestBounds:
    def test_a_commit_of_more_than_a_packet_is_refused(self, two):
        writes = [CreateNode(f"/topics/{number}", bytes(600_000)) for number in range(2)]

        with pytest.raises(InvalidArgument, match="in pieces"):
            two[0].commit(writes)

    def test_checks_count_too(self, two):
        two[0].commit([CreateNode("/incarnations/1", b"")])
        checks = [CheckNode("/incarnations/1", 0)] * 10_000

        with pytest.raises(InvalidArgument, match="in pieces"):
            two[0].commit(checks)

    def test_a_full_node_is_committed_with_the_checks_beside_it(self, two):
        checks = [CheckNode(f"/incarnations/{number}", 0) for number in range(100)]
        two[0].commit([CreateNode(each.path, b"") for each in checks])

        two[0].commit([*checks, CreateNode("/topics/a", bytes(MAX_NODE_BYTES))])

        assert len(two[1].get("/topics/a").data) == MAX_NODE_BYTES

    def test_an_ensemble_that_is_not_there_is_named(self):
        address = f"127.0.0.1:{free_port()}"

        with pytest.raises(StorageError, match=address):
            ZooKeeperStore.open(address, session_ms=200, connect_seconds=1.0)


class TestOutage:
    """With a server of its own, as this ends it."""

    def test_changes_made_meanwhile_are_reported_and_so_is_the_lost_session(self, tmp_path):
        with ZooKeeper(tmp_path) as server:
            store = ZooKeeperStore.open(server.address, session_ms=SHORT_SESSION_MS)
            session, heard = [], []
            store.watch_session(session.append)
            store.watch("topics", lambda path, node: heard.append(path))

            def committed():
                try:
                    store.commit([CreateNode("/topics/orders", b"x")])
                except VersionConflict:  # the answer to the one before came too late
                    return True
                except StorageError:
                    return False
                return True

            try:
                server.kill()
                wait_until(lambda: session == [False], what="the end of the session")
                with pytest.raises(StorageError):
                    store.commit([CreateNode("/topics/never", b"x")])
                server.start()
                wait_until(lambda: session[:2] == [False, True], what="a new session")
                wait_until(committed, what="a commit")

                wait_until(lambda: "/topics/orders" in heard, what="the event of a topic")
            finally:
                store.close()

    def test_a_change_whose_read_timed_out_is_reported_later(self, tmp_path):
        """A reply that comes after its timeout has used up the watch, and nothing reconnects."""
        with ZooKeeper(tmp_path) as server:
            patient = ZooKeeperStore.open(server.address, session_ms=SESSION_MS)
            hasty = ZooKeeperStore.open(server.address, session_ms=SESSION_MS)
            heard = []
            hasty.watch("topics", lambda path, node: heard.append(path))
            client = hasty._watch._client
            try:
                with pytest.MonkeyPatch.context() as patch:
                    children = client.get_children_async
                    patch.setattr(
                        client, "get_children_async", lambda *a, **k: _TooLate(children(*a, **k))
                    )
                    patient.commit([CreateNode("/topics/orders", b"x")])
                    wait_until(
                        lambda: hasty._watch._retry_at is not None, what="a read that failed"
                    )
                    assert heard == []

                wait_until(lambda: heard == ["/topics/orders"], what="the event of a topic")
            finally:
                patient.close()
                hasty.close()
