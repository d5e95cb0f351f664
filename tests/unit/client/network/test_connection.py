"""A connection: agreeing on versions, and what becomes of one that goes wrong."""

import select
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.error import ConnectionLost, Unreachable, Unsupported
from headrace.client.network.connection import BrokerConnection
from headrace.client.settings import ClientSettings
from headrace.model.error import ConfigError
from headrace.testing.readiness import free_port, wait_until
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error import MalformedResponse
from headrace.wire.header import RequestHeader
from headrace.wire.response import api_versions_body, api_versions_fallback, pack_response

SETTINGS = ClientSettings.of({"request.timeout.ms": "60000"})


def versions(header: RequestHeader, apis: Any = tuple(APIS.values())) -> bytes:  # noqa: B008
    return pack_response(
        header.api_key, header.api_version, header.correlation_id, api_versions_body(apis)
    )


def test_the_newest_common_version_is_used(tiny_broker: Any, connect: Any) -> None:
    tiny_broker.answer = lambda header, frame: versions(header)
    connection = connect()

    assert connection.version(ApiKey.METADATA) == APIS[ApiKey.METADATA].highest
    assert connection.version(ApiKey.METADATA, highest=5) == 5
    with pytest.raises(Unsupported, match="does not serve Metadata v0 to v-1"):
        connection.version(ApiKey.METADATA, highest=-1)


def test_a_broker_that_does_not_know_our_api_versions_is_asked_in_the_oldest(
    tiny_broker: Any, connect: Any
) -> None:
    def answer(header: RequestHeader, frame: bytes) -> bytes:
        if header.api_version:
            return api_versions_fallback(header.correlation_id)
        return versions(header)

    tiny_broker.answer = answer

    connection = connect()

    assert [header.api_version for header in tiny_broker.requests] == [4, 0]
    assert connection.serves(ApiKey.FETCH)


def test_an_api_that_is_not_served_is_named(tiny_broker: Any, connect: Any) -> None:
    tiny_broker.answer = lambda header, frame: versions(header, [APIS[ApiKey.API_VERSIONS]])
    connection = connect()

    assert not connection.serves(ApiKey.LIST_GROUPS)
    with pytest.raises(Unsupported, match="does not serve ListGroups"):
        connection.call(ApiKey.LIST_GROUPS, {})


def test_an_old_answer_comes_in_the_newest_shape(tiny_broker: Any, connect: Any) -> None:
    def answer(header: RequestHeader, frame: bytes) -> bytes:
        if header.api_key == ApiKey.API_VERSIONS:
            return versions(header)
        body = {"error_code": 0, "groups": [{"group_id": "g", "protocol_type": "consumer"}]}
        return pack_response(header.api_key, header.api_version, header.correlation_id, body)

    tiny_broker.answer = answer
    connection = connect()

    (group,) = connection.call(ApiKey.LIST_GROUPS, {}, highest=0).groups

    assert (group.group_id, group.group_state, group.group_type) == ("g", "", "")


def many_groups(header: RequestHeader, frame: bytes) -> bytes:
    """An answer of a megabyte."""
    if header.api_key == ApiKey.API_VERSIONS:
        return versions(header)
    groups = [{"group_id": f"group-{number:080}"} for number in range(10_000)]
    body = {"error_code": 0, "groups": groups}
    return pack_response(header.api_key, header.api_version, header.correlation_id, body)


def taken_as_it_comes(connection: BrokerConnection) -> Any:
    """The answer, without ever waiting in the connection."""
    pending = connection.begin(ApiKey.LIST_GROUPS, {})
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while (answer := connection.try_finish(pending)) is None:
        assert poll.poll(60_000)
    return answer


def test_an_answer_is_taken_as_it_comes(tiny_broker: Any, connect: Any) -> None:
    tiny_broker.answer = many_groups
    assert len(taken_as_it_comes(connect()).groups) == 10_000


def test_what_has_come_of_an_answer_gives_the_rest_more_time(
    tiny_broker: Any, connect: Any
) -> None:
    def begun(header: RequestHeader, frame: bytes) -> bytes:
        answer = many_groups(header, frame)
        return answer if header.api_key == ApiKey.API_VERSIONS else answer[:655_364]

    tiny_broker.answer = begun
    connection = connect()
    pending = connection.begin(ApiKey.LIST_GROUPS, {})
    assert connection.deadline(pending) == pending.deadline

    def ten_more_seconds() -> bool:
        assert connection.try_finish(pending) is None
        return bool(connection.deadline(pending) == pending.deadline + 10)

    wait_until(ten_more_seconds, what="a longer deadline")


def test_an_answer_that_does_not_come_in_time_is_lost(tiny_broker: Any) -> None:
    tiny_broker.answer = lambda header, frame: (
        versions(header) if header.api_key == ApiKey.API_VERSIONS else b""
    )
    connection = BrokerConnection(tiny_broker.address, SETTINGS)
    connection.settings = ClientSettings.of({"request.timeout.ms": "50"})
    pending = connection.begin(ApiKey.LIST_GROUPS, {})

    with pytest.raises(ConnectionLost, match="did not answer in time"):
        wait_until(lambda: connection.try_finish(pending) is not None, what="an answer")

    assert connection.closed


def test_an_address_without_a_listener_is_unreachable() -> None:
    address = Address("127.0.0.1", free_port())
    with pytest.raises(Unreachable, match=rf"cannot reach {address}: connection refused"):
        BrokerConnection(address, SETTINGS)


def test_a_connection_that_is_closed_instead_of_answered(tiny_broker: Any, connect: Any) -> None:
    with pytest.raises(ConnectionLost, match="closed the connection"):
        connect()


def test_a_broker_that_stays_silent(tiny_broker: Any, connect: Any) -> None:
    tiny_broker.answer = lambda header, frame: b""
    hasty = ClientSettings.of({"request.timeout.ms": "50"})
    with pytest.raises(ConnectionLost, match="did not answer in time"):
        BrokerConnection(tiny_broker.address, hasty)


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"HTTP"])
def test_something_that_is_no_kafka_broker(tiny_broker: Any, connect: Any, size: bytes) -> None:
    tiny_broker.answer = lambda header, frame: size + b"/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(ConnectionLost, match="does not answer as a Kafka broker does"):
        connect()


def test_an_answer_to_another_request(tiny_broker: Any, connect: Any) -> None:
    def answer(header: RequestHeader, frame: bytes) -> bytes:
        return versions(header._replace(correlation_id=header.correlation_id + 7))

    tiny_broker.answer = answer
    with pytest.raises(ConnectionLost, match="another request"):
        connect()


def test_an_answer_that_cannot_be_read_closes_the_connection(
    tiny_broker: Any, connect: Any
) -> None:
    tiny_broker.answer = lambda header, frame: versions(header)
    connection = connect()

    def nonsense(header: RequestHeader, frame: bytes) -> bytes:
        return (4 + 8).to_bytes(4, "big") + header.correlation_id.to_bytes(4, "big") + b"\xff" * 8

    tiny_broker.answer = nonsense
    with pytest.raises(MalformedResponse):
        connection.call(ApiKey.METADATA, {"topics": None})
    assert connection.closed


def tls_settings(tls_broker: Any, **more: str) -> ClientSettings:
    texts = {"security.protocol": "SSL", "ssl.ca.location": str(tls_broker.certificate)}
    return ClientSettings.of(texts | {key.replace("_", "."): text for key, text in more.items()})


def test_tls_with_a_certificate_that_names_the_host(tls_broker: Any) -> None:
    tls_broker.broker.answer = lambda header, frame: versions(header)
    address = Address("localhost", tls_broker.broker.address.port)
    connection = BrokerConnection(address, tls_settings(tls_broker))
    assert connection.serves(ApiKey.FETCH)
    connection.close()


def test_an_answer_over_tls_is_taken_as_it_comes(tls_broker: Any) -> None:
    tls_broker.broker.answer = many_groups
    address = Address("localhost", tls_broker.broker.address.port)
    connection = BrokerConnection(address, tls_settings(tls_broker))
    assert len(taken_as_it_comes(connection).groups) == 10_000
    connection.close()


def test_tls_with_a_certificate_of_another_host_is_refused_by_default(tls_broker: Any) -> None:
    tls_broker.broker.answer = lambda header, frame: versions(header)
    with pytest.raises(Unreachable, match=r"over TLS: its certificate is not trusted"):
        BrokerConnection(tls_broker.broker.address, tls_settings(tls_broker))

    lax = tls_settings(tls_broker, ssl_endpoint_identification_algorithm="none")
    BrokerConnection(tls_broker.broker.address, lax).close()


def test_tls_with_an_untrusted_certificate_is_refused(tls_broker: Any) -> None:
    address = Address("localhost", tls_broker.broker.address.port)
    with pytest.raises(Unreachable, match=r"over TLS: its certificate is not trusted"):
        BrokerConnection(address, ClientSettings.of({"security.protocol": "SSL"}))


def test_a_certificate_that_is_not_there_is_a_wrong_setting(tls_broker: Any) -> None:
    settings = tls_settings(tls_broker, ssl_ca_location="/nowhere.pem")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        BrokerConnection(tls_broker.broker.address, settings)


def test_a_connection_is_reusable_while_nothing_is_in_flight(
    tiny_broker: Any, connect: Any
) -> None:
    tiny_broker.answer = lambda header, frame: (
        versions(header)
        if header.api_key == ApiKey.API_VERSIONS
        else pack_response(header.api_key, header.api_version, header.correlation_id, {})
    )
    connection = connect()
    assert connection.is_reusable

    pending = connection.begin(ApiKey.LIST_GROUPS, {})
    assert not connection.is_reusable

    connection.finish(pending)
    assert connection.is_reusable

    connection.close()
    assert not connection.is_reusable


@pytest.mark.parametrize("then", ["answers", "says nothing", "hangs up", "babbles"])
def test_a_connection_is_asked_whether_the_broker_still_answers(
    tiny_broker: Any, connect: Any, then: str
) -> None:
    tiny_broker.answer = lambda header, frame: versions(header)
    connection = connect()
    said = {"says nothing": b"", "hangs up": None, "babbles": b"\0\0\0\x04\0\0\0\x63"}
    if then != "answers":
        tiny_broker.answer = lambda header, frame: said[then]

    seconds = 0.2 if then == "says nothing" else 60.0
    assert connection.answers(seconds) is (then == "answers")
    assert connection.closed is (then != "answers")
