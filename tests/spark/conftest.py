"""One Spark session for the whole test run; see `tests/conftest.py` for the broker."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.spark_session import local_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all tests share: stop your queries, and reset every option you set."""
    try:
        with local_spark(tmp_path_factory.mktemp("spark")) as session:
            yield session
    except PeerMissing as missing:
        require_peer(str(missing))
