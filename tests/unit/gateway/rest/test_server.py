"""A proxy that cannot serve says so to its starter."""

import pytest

from headrace.client.address import Address
from headrace.client.error import ClientError
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.testing.readiness import free_port


def test_a_start_without_a_broker_fails() -> None:
    client = ClientSettings.of(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "default.api.timeout.ms": "200"}
    )
    server = RestServer(RestSettings(client=client, listen=Address("127.0.0.1", 0)))

    with pytest.raises(ClientError):
        server.start()
