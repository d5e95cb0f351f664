"""Login, ACLs and TLS to ZooKeeper: what the brokers' identity may do, and no other client."""

import asyncio
import importlib.util
import socket
from itertools import count

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from headrace.cluster.store import CreateNode, Node, UpdateNode
from headrace.cluster.zookeeper.zookeeper_access import ZooKeeperAccess, ZooKeeperLogin, client_tls
from headrace.cluster.zookeeper.zookeeper_store import ZooKeeperStore
from headrace.model.error import ConfigError, StorageError
from headrace.testing.local_cluster import start_member
from headrace.testing.readiness import wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.secure_zookeeper import USERS, SecureZooKeeper

# As long as the server allows: a commit waits for its answer no longer than a session lasts.
SESSION_MS = 10_000
NO_PATIENCE = {"session_ms": 600, "connect_seconds": 1.0}
SCRAM, TOPIC = "/scram/anna", "/topics/orders"
_roots = count(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("secure-zookeeper")


@pytest.fixture(scope="module")
def broker_certificate(folder):
    return Certificate.make(folder, "broker")


@pytest.fixture(scope="module")
def server(folder, broker_certificate):
    try:
        server = SecureZooKeeper(folder, broker_certificate)
        server.start()
    except PeerMissing as missing:
        require_peer(str(missing))
    yield server
    server.kill()


@pytest.fixture
def root():
    return f"access-{next(_roots)}"


@pytest.fixture
def opened(root, server):
    """Opens stores at the test's own root, and closes them."""
    stores = []

    def open_store(access, address=None, **options):
        where = f"{address or server.address}/{root}"
        options = {"session_ms": SESSION_MS, **options}
        stores.append(ZooKeeperStore.open(where, access=access, **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def stranger(root, server):
    """Another client of the ensemble, without a login."""
    client = KazooClient(f"{server.address}/{root}")
    # Not `start`, which warns of a root that the brokers make later.
    assert client.start_async().wait(90)
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="module", autouse=True)
def _sasl_library():
    if importlib.util.find_spec("puresasl") is None:
        require_peer("pure-sasl is not installed: pip install 'headrace[spark]'")


def digest(user="broker"):
    return ZooKeeperLogin("digest", user, USERS[user])


def sasl(user="broker", password=None):
    return ZooKeeperLogin("sasl", user, password or USERS[user])


def assert_closed_to(client):
    assert client.get(TOPIC)[0] == b"open"
    for attempt in (
        lambda: client.get(SCRAM),
        lambda: client.get_children("/scram"),
        lambda: client.set(SCRAM, b"known"),
        lambda: client.delete(SCRAM),
        lambda: client.create("/scram/mallory", b"known"),
        lambda: client.set(TOPIC, b"changed"),
        lambda: client.delete(TOPIC),
        lambda: client.create("/topics/mine", b""),
        lambda: client.create("/brokers", b""),
        lambda: client.set_acls(TOPIC, client.get_acls(TOPIC)[0]),
    ):
        with pytest.raises(NoAuthError):
            attempt()


@pytest.mark.parametrize("login", [digest(), sasl()], ids=["digest", "sasl"])
class TestAcls:
    def test_another_client_reads_no_scram_key_and_writes_nothing(self, login, opened, stranger):
        store = opened(ZooKeeperAccess(login, set_acl=True))

        store.commit([CreateNode(SCRAM, b"secret"), CreateNode(TOPIC, b"open")])

        assert_closed_to(stranger)
        assert store.scan("scram") == [Node(SCRAM, b"secret", 0)]

    def test_another_user_of_the_ensemble_does_not_either(self, login, opened):
        opened(ZooKeeperAccess(login, set_acl=True)).put(SCRAM, b"secret", None)
        other = opened(ZooKeeperAccess(ZooKeeperLogin(login.scheme, "mallory", USERS["mallory"])))

        with pytest.raises(StorageError, match="another ZooKeeper user"):
            other.scan("scram")
        with pytest.raises(StorageError, match="another ZooKeeper user"):
            other.put("/topics/mine", b"", None)

    def test_another_broker_with_the_same_login_does_everything(self, login, opened):
        one, other = (opened(ZooKeeperAccess(login, set_acl=True)) for _ in range(2))
        one.commit([CreateNode(SCRAM, b"secret"), CreateNode("/brokers/1", b"", ephemeral=True)])

        other.commit([UpdateNode(SCRAM, b"new", 0)])

        assert one.get(SCRAM) == Node(SCRAM, b"new", 1)

    def test_nodes_from_before_are_closed_at_the_next_start(self, login, opened, stranger):
        before = opened(ZooKeeperAccess())
        before.commit([CreateNode(SCRAM, b"secret"), CreateNode(TOPIC, b"open")])
        assert stranger.get(SCRAM)[0] == b"secret"

        opened(ZooKeeperAccess(login, set_acl=True))

        assert_closed_to(stranger)

    def test_a_broker_that_logs_in_without_acls_still_uses_closed_nodes(self, login, opened):
        opened(ZooKeeperAccess(login, set_acl=True)).put(SCRAM, b"secret", None)

        later = opened(ZooKeeperAccess(login))

        assert later.put(SCRAM, b"new", 0) == 1


class TestLogin:
    def test_a_wrong_password_is_refused_by_name(self, opened):
        with pytest.raises(StorageError, match="refuses the login of 'broker'"):
            opened(ZooKeeperAccess(sasl(password="wrong")))

    def test_acls_without_a_login_are_refused_with_a_reason(self, opened):
        with pytest.raises(StorageError, match=r"zookeeper\.set\.acl needs a login"):
            opened(ZooKeeperAccess(set_acl=True))

    def test_a_store_whose_login_was_refused_for_a_while_comes_back(self, opened):
        """kazoo alone would give up for good."""
        store = opened(ZooKeeperAccess(sasl(), set_acl=True))
        session = []
        store.watch_session(session.append)
        connection = store._client._connection
        store.put(SCRAM, b"secret", None)

        # As if the ensemble had forgotten the user when the connection broke.
        connection.sasl_options["password"] = "forgotten"
        connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: session == [False], what="the end of the session")
        connection.sasl_options["password"] = USERS["broker"]

        wait_until(lambda: session[:2] == [False, True], what="a new session")
        assert store.put(SCRAM, b"new", 0) == 1


class TestTls:
    def tls(self, server, certificate, **changes):
        wanted = {
            "keystore": certificate.keystore,
            "truststore": server.certificate.certificate,
            "check_host": True,
        }
        return client_tls(**{**wanted, **changes})

    def test_many_replies_at_once_are_all_read(self, opened, server, broker_certificate):
        access = ZooKeeperAccess(tls=self.tls(server, broker_certificate))
        store = opened(access, server.tls_address)
        nodes = [CreateNode(f"/topics/{number:04}", bytes(400)) for number in range(300)]
        store.commit(nodes)

        assert len(store.scan("topics")) == 300

    def test_a_certificate_is_a_login(self, opened, server, broker_certificate, stranger):
        access = ZooKeeperAccess(tls=self.tls(server, broker_certificate), set_acl=True)
        store = opened(access, server.tls_address)

        store.commit([CreateNode(SCRAM, b"secret"), CreateNode(TOPIC, b"open")])

        assert_closed_to(stranger)

    def test_a_server_of_another_authority_is_not_believed(
        self, opened, server, broker_certificate
    ):
        context = self.tls(server, broker_certificate, truststore=broker_certificate.certificate)

        with pytest.raises(StorageError, match="is not valid: self-signed certificate"):
            opened(ZooKeeperAccess(tls=context), server.tls_address)

    def test_a_server_of_another_name_is_not_believed(self, opened, server, broker_certificate):
        # 127.1 is 127.0.0.1 for the resolver, but no name of the certificate.
        address = server.tls_address.replace("127.0.0.1", "127.1")
        access = ZooKeeperAccess(tls=self.tls(server, broker_certificate))
        lenient = ZooKeeperAccess(tls=self.tls(server, broker_certificate, check_host=False))

        with pytest.raises(StorageError, match="is not valid: Hostname mismatch"):
            opened(access, address)
        assert opened(lenient, address).scan("topics") == []

    def test_a_client_without_a_certificate_is_refused(self, opened, server, broker_certificate):
        context = self.tls(server, broker_certificate, keystore=None)

        with pytest.raises(StorageError, match="no ZooKeeper server answers"):
            opened(ZooKeeperAccess(tls=context), server.tls_address, **NO_PATIENCE)

    def test_a_file_that_is_not_pem_is_named(self, tmp_path):
        (tmp_path / "key.pem").write_text("nothing")

        with pytest.raises(ConfigError, match=r"key\.pem .* it is not PEM"):
            client_tls(keystore=tmp_path / "key.pem", truststore=None, check_host=True)


def test_a_broker_uses_what_its_settings_say(tmp_path, root, server, broker_certificate, stranger):
    (tmp_path / "user").write_text(f"broker={USERS['broker']}\n")
    settings = {
        "zookeeper.set.acl": "true",
        "headrace.zookeeper.user.file": str(tmp_path / "user"),
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(broker_certificate.keystore),
        "zookeeper.ssl.truststore.location": str(server.certificate.certificate),
    }

    async def scenario():
        broker = await start_member(f"{server.tls_address}/{root}", tmp_path, 1, settings)
        try:
            assert stranger.get_children("/brokers") == ["1"]
            assert {acl.id for acl in stranger.get_acls("/brokers/1")[0]} == {
                ("sasl", "broker"),
                ("world", "anyone"),
            }
            with pytest.raises(NoAuthError):
                stranger.get_children("/scram")
            with pytest.raises(NoAuthError):
                stranger.create("/topics/mine")
        finally:
            await broker.stop()

    asyncio.run(scenario())
