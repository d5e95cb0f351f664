"""One ZooKeeper for all cluster tests; each test gets a root of its own in it."""

from collections.abc import Iterator
from itertools import count

import pytest

from headrace.testing.peer import PeerMissing, require_peer
from headrace.testing.zookeeper import ZooKeeper

_roots = count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real server."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
    except PeerMissing as missing:
        require_peer(str(missing))
    yield server
    server.kill()


@pytest.fixture
def ensemble(zookeeper: ZooKeeper) -> str:
    """Where a store finds nothing yet."""
    return f"{zookeeper.address}/test-{next(_roots)}"
