"""The Kinesis gateway in the test's own process, on loopback and a free port."""

from typing import Any

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings


def kinesis_gateway(brokers: str, **options: Any) -> KinesisServer:
    """Return a gateway for a cluster; it serves inside a `with` block.

    Args:
        brokers: the cluster's address.
        options: fields of `KinesisSettings`.
    """
    client = ClientSettings.of({"bootstrap.servers": brokers})
    settings = KinesisSettings(client=client, listen=Address("127.0.0.1", 0), **options)
    return KinesisServer(settings)
