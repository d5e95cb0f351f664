"""python-schema-registry-client against our registry, with a login."""

import json
from pathlib import Path

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.access.user import add_user
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.python_peer import run_program
from testkit.process.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("program") / "schema_registry_client.py"


def test_the_client_registers_compares_deletes_and_serializes(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    secret = add_user(users, SUBJECT_USERS, "ann", ["write:psr-*"])
    settings = RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        topic="_schemas-python-client",
        group="python-client",
        users=users,
    )
    with RegistryServer(settings) as server:
        try:
            printed = run_program(
                "python-schema-registry-client", PROGRAM, server.url, text=f"ann:{secret}"
            )
        except PeerMissing as missing:
            require_peer(str(missing))

    assert json.loads(printed) == {
        "registered twice": True,
        "by id": True,
        "latest": 1,
        "looked up": 1,
        "places": "psr-users",
        "fits": True,
        "does not fit": False,
        "refused": 409,
        "updated": True,
        "level": "NONE",
        "second": True,
        "versions": [1, 2],
        "avro": [0, {"name": "Ann"}],
        "json": [0, {"x": 1}],
        "subjects": ["psr-points", "psr-users"],
        "deleted version": 1,
        "deleted": [2],
        "left": ["psr-points"],
        "async": {"name": "Bob"},
        "no login": 401,
    }
