"""The settings of a console, and the command that starts one."""

import json
import socket
from pathlib import Path

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.console.access.user import Users, hash_password
from headrace.console.message.mask import Masks
from headrace.console.message.payload_renderer import PayloadRenderer
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings, read_schemas, read_urls
from headrace.model.error import ConfigError
from testkit.process.command_line import run_headrace

NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


def settings(host: str, users: Users | None = None) -> ConsoleSettings:
    return ConsoleSettings(ClientSettings.of({}), listen=Address(host, 0), users=users)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_login(host: str) -> None:
    settings(host).validate()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", ""])
def test_anywhere_else_does(host: str) -> None:
    with pytest.raises(ConfigError, match="without a login"):
        settings(host).validate()
    settings(host, Users(f"ada:admin:{hash_password('long enough')}")).validate()


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="cannot listen"):
            ConsoleServer(ConsoleSettings(ClientSettings.of({}), listen=Address("127.0.0.1", port)))


def test_the_command_refuses_a_public_place_without_login() -> None:
    done = run_headrace("console", "--listen", "0.0.0.0:0")
    assert (done.code, "--users" in done.err) == (2, True)


def test_the_command_adds_users(tmp_path: Path) -> None:
    path = tmp_path / "users.txt"
    arguments = ("console", "--users", str(path), "--add-user", "ada", "--role", "admin")
    done = run_headrace(*arguments, stdin=b"long enough\n")
    assert done.code == 0
    assert Users.read(path).authenticate("ada", "long enough") is not None


def test_agents_may_have_names() -> None:
    assert read_urls(["a1=http://h:1/metrics", "http://h:2/metrics"], "--agent") == {
        "a1": "http://h:1/metrics",
        "h:2": "http://h:2/metrics",
    }
    with pytest.raises(ConfigError):
        read_urls(["file:///etc/passwd"], "--agent")


def test_a_file_without_a_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schema.avsc"
    path.write_text('{"type": "nonsense"}')
    with pytest.raises(ConfigError, match="no Avro schema"):
        read_schemas([f"clicks={path}"])


def read_one(folder: Path, schema: object) -> PayloadRenderer:
    path = folder / "schema.avsc"
    path.write_text(json.dumps(schema))
    return PayloadRenderer(Masks().of("clicks"), read_schemas([f"clicks={path}"])["clicks"])


def test_a_value_of_the_topics_schema_is_opened(tmp_path: Path) -> None:
    shown = read_one(tmp_path, NODE).show(b"\x02\x00")
    assert (shown.kind, json.loads(shown.text)) == ("avro", {"next": {"next": None}})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NODE, b"\x02" * 50_000 + b"\x00"),
        # A billion nulls.
        ({"type": "array", "items": "null"}, b"\x80\xa8\xd6\xb9\x07\x00"),
    ],
)
def test_a_value_that_would_end_the_process_is_shown_as_bytes(
    tmp_path: Path, schema: object, value: bytes
) -> None:
    assert read_one(tmp_path, schema).show(value).kind == "hex"
