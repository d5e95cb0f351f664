"""What brokers hold, before and after one of them is emptied."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from headrace.client.address import Address
from headrace.client.admin.held_partition import (
    check_all_visible,
    check_empty,
    hidden_partitions,
)
from headrace.client.error import ClientError
from headrace.client.network.metadata import BrokerMetadata, Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.response import pack_response, parse_response

EMPTY = {"log_dir": "/disk1", "topics": []}
OFFLINE = {"log_dir": "/disk2", "error_code": ErrorCode.kafka_storage_error}
HIDDEN = {
    "log_dir": "/disk1",
    "topics": [
        {
            "name": "hidden",
            "partitions": [
                {
                    "partition_index": 0,
                    "partition_size": 1,
                    "offset_lag": 0,
                    "is_future_key": False,
                }
            ],
        }
    ],
}

Directories = Sequence[Mapping[str, Any]]


class Broker:
    """Describes its log directories, in the bytes of the protocol."""

    def __init__(self, directories: Directories) -> None:
        self._directories = directories

    def call(self, api: ApiKey, _: Mapping[str, Any]) -> Any:
        frame = pack_response(api, 4, 1, {"results": self._directories})
        return parse_response(api, 4, memoryview(frame)[4:])[1]


class Cluster:
    """Brokers that run, without any topic that the user sees."""

    def __init__(self, brokers: Mapping[int, Directories]) -> None:
        self._brokers = brokers

    def node(self, number: int) -> Broker:
        return Broker(self._brokers[number])

    def metadata(self) -> Metadata:
        brokers = {each: BrokerMetadata(each, Address("h", each), None) for each in self._brokers}
        return Metadata(cluster_id="c", controller=1, brokers=brokers, topics={})


def pool_of(brokers: Mapping[int, Directories]) -> ConnectionPool:
    return cast(ConnectionPool, Cluster(brokers))


def test_a_broker_whose_directory_is_offline_is_not_called_empty() -> None:
    pool = pool_of({1: [EMPTY, OFFLINE], 2: [EMPTY]})

    with pytest.raises(ClientError, match=r"/disk2 of broker 1 is not known.* or stop it"):
        check_empty(pool, 1, [])
    check_empty(pool, 2, [])


def test_nothing_is_moved_off_a_broker_whose_directory_is_offline() -> None:
    pool = pool_of({1: [OFFLINE], 2: [EMPTY]})

    with pytest.raises(ClientError, match=r"/disk2 of broker 1 is not known.* or stop it"):
        check_all_visible(pool, pool.metadata(), 1)
    check_all_visible(pool, pool.metadata(), 2)


def test_an_offline_directory_of_another_broker_may_hide_what_a_stopped_one_held() -> None:
    pool = pool_of({1: [EMPTY], 2: [OFFLINE]})

    with pytest.raises(ClientError, match=r"broker 3 cannot be removed: .*/disk2") as refused:
        check_all_visible(pool, pool.metadata(), 3)
    assert "stop" not in str(refused.value)


def test_a_broker_that_is_stopped_can_be_given_up_with_its_disk() -> None:
    pool = pool_of({2: [EMPTY]})

    check_all_visible(pool, pool.metadata(), 1)
    check_empty(pool, 1, [])


def test_a_directory_that_is_offline_is_no_obstacle_to_a_restart() -> None:
    pool = pool_of({1: [OFFLINE], 2: [HIDDEN]})

    assert hidden_partitions(pool, [1, 2]) == [TopicPartition("hidden", 0)]
