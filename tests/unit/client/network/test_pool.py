"""Which broker of a cluster is asked, and which next when that one is no help."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.error import ConnectionLost
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.wire.api import ApiKey
from headrace.wire.header import RequestHeader
from headrace.wire.response import api_versions_body, pack_response


def says(nodes: list[Any]) -> Callable[[RequestHeader, bytes], bytes]:
    """A broker that knows of these: the first of them is the controller."""

    def answer(header: RequestHeader, frame: bytes) -> bytes:
        brokers = [
            {"node_id": number, "host": node.address.host, "port": node.address.port}
            for number, node in enumerate(nodes)
        ]
        body = {"brokers": brokers, "controller_id": 0, "topics": []}
        if header.api_key == ApiKey.API_VERSIONS:
            body = api_versions_body()
        return pack_response(header.api_key, header.api_version, header.correlation_id, body)

    return answer


def only_versions(then: bytes | None) -> Callable[[RequestHeader, bytes], bytes | None]:
    """A broker that takes connections, and then says this: None hangs up, nothing says nothing."""

    def answer(header: RequestHeader, frame: bytes) -> bytes | None:
        return says([])(header, frame) if header.api_key == ApiKey.API_VERSIONS else then

    return answer


def pool_of(*brokers: Any, **settings: str) -> ConnectionPool:
    servers = ",".join(str(each.address) for each in brokers)
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    return ConnectionPool(ClientSettings.of({"bootstrap.servers": servers, **texts}))


@pytest.mark.parametrize("then", [None, b""], ids=["hangs up", "says nothing"])
def test_the_next_broker_is_asked_when_the_first_is_no_help(
    tiny_brokers: Any, then: bytes | None
) -> None:
    bad, good = tiny_brokers
    bad.answer, good.answer = only_versions(then), says([good])

    with pool_of(bad, good, request_timeout_ms="3000") as pool:
        found = pool.metadata(())

    assert [broker.address for broker in found.brokers.values()] == [good.address]


def test_a_broker_that_is_cut_off_later_is_left_for_the_others(tiny_brokers: Any) -> None:
    bad, good = tiny_brokers
    bad.answer = good.answer = says([bad, good])
    with pool_of(bad, good) as pool:
        pool.metadata(())
        bad.answer = only_versions(None)
        asked = len(bad.requests)

        pool.metadata(())
        pool.metadata(())

    assert len(bad.requests) == asked + 1


def test_a_cluster_that_never_answered_is_given_up_when_all_were_asked(tiny_brokers: Any) -> None:
    for broker in tiny_brokers:
        broker.answer = only_versions(None)

    with pool_of(*tiny_brokers) as pool, pytest.raises(ConnectionLost, match=r"security\.protocol"):
        pool.metadata(())

    for broker in tiny_brokers:
        assert [ApiKey(each.api_key) for each in broker.requests][-1] is ApiKey.METADATA


def test_a_cluster_that_answered_before_is_given_up_when_the_time_is_over(
    tiny_brokers: Any,
) -> None:
    one, other = tiny_brokers
    one.answer = other.answer = says([one, other])
    with pool_of(one, other, default_api_timeout_ms="3000", request_timeout_ms="3000") as pool:
        pool.metadata(())
        one.answer = other.answer = only_versions(None)

        with pytest.raises(ConnectionLost):
            pool.metadata(())

    assert ApiKey.METADATA in [each.api_key for each in other.requests]
