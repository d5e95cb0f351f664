"""`headrace schema`, and records with schemas, with a real broker and a real registry."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.access.user import add_user
from headrace.gateway.registry.access.subject_users import SUBJECT_USERS
from headrace.gateway.registry.server import RegistryServer
from headrace.gateway.registry.settings import RegistrySettings
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace

AVRO = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}
PROTO = 'syntax = "proto3"; package shop; message A { int32 n = 1; } message B { string s = 1; }'
JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@dataclass(frozen=True)
class CommandLine:
    """Where the commands of a test go, and a place for their files."""

    brokers: str
    url: str
    folder: Path

    def run(self, *arguments: str, stdin: str = "") -> Finished:
        environment = {"HEADRACE_BROKERS": self.brokers, "HEADRACE_REGISTRY": self.url}
        return run_headrace(*arguments, stdin=stdin.encode(), environment=environment)

    def ok(self, *arguments: str, stdin: str = "") -> Finished:
        ended = self.run(*arguments, stdin=stdin)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--format", "json").out)

    def file(self, name: str, schema: Any) -> str:
        """Write a schema and return the file's name."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (self.folder / name).write_text(text)
        return str(self.folder / name)


def settings(broker: BrokerProcess, name: str, **options: Any) -> RegistrySettings:
    return RegistrySettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
        topic=f"_schemas-{name}",
        group=name,
        **options,
    )


@pytest.fixture(scope="module")
def url(broker: BrokerProcess) -> Iterator[str]:
    with RegistryServer(settings(broker, "cli-schema")) as server:
        yield server.url


@pytest.fixture
def command(broker: BrokerProcess, url: str, tmp_path: Path) -> CommandLine:
    return CommandLine(broker.address, url, tmp_path)


def with_field(**field: Any) -> dict[str, Any]:
    return {**AVRO, "fields": [*AVRO["fields"], field]}


def test_a_schema_is_registered_shown_compared_and_deleted(
    command: CommandLine, topic: str
) -> None:
    subject = f"{topic}-value"
    first = command.file("click.avsc", AVRO)
    second = command.file("click-2.avsc", with_field(name="ms", type="long", default=0))
    broken = command.file("click-3.avsc", with_field(name="x", type="int"))

    (created,) = command.json("schema", "create", subject, "--schema", first)
    assert (created["subject"], created["version"], created["type"]) == (subject, 1, "AVRO")
    assert command.json("schema", "get", subject, "--schema", first)[0]["version"] == 1
    (by_id,) = command.json("schema", "get", subject, "--id", str(created["id"]))
    assert json.loads(by_id["schema"]) == AVRO

    check = ("schema", "check-compatibility", subject, "--schema")
    assert command.ok(*check, second).out == "compatible\n"
    refused = command.run(*check, broken)
    assert refused.code == 1
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.out
    refused = command.run("schema", "create", subject, "--schema", broken)
    assert refused.code == 1
    assert "incompatible" in refused.err

    command.ok("schema", "create", subject, "--schema", second)
    assert '+      "name": "ms",' in command.ok("schema", "diff", subject, "1", "latest").lines
    printed = command.ok("schema", "get", subject, "--schema-version", "2", "--print-schema").out
    assert json.loads(printed)["fields"][1]["name"] == "ms"

    command.ok("schema", "delete", subject, "--schema-version", "1")
    assert [each["version"] for each in command.json("schema", "list", subject)] == [2]
    everything = command.json("schema", "list", "--deleted")
    own = [(each["version"], each["deleted"]) for each in everything if each["subject"] == subject]
    assert own == [(1, True), (2, False)]
    command.ok("schema", "subject", "delete", subject)
    command.ok("schema", "subject", "delete", subject, "--permanent")
    gone = command.run("schema", "get", subject)
    assert (gone.code, gone.err) == (1, f"headrace: Subject '{subject}' not found.\n")
    ended = command.run("schema", "subject", "delete", subject)
    assert ended.code == 1
    assert "not found" in ended.out


def test_references_are_registered_and_found(command: CommandLine, topic: str) -> None:
    user = command.file("user.proto", 'syntax = "proto3"; message User { string name = 1; }')
    order = command.file(
        "order.proto", 'syntax = "proto3"; import "user.proto"; message Order { User who = 1; }'
    )
    command.ok("schema", "create", f"{topic}-user", "--schema", user)
    references = f"user.proto:{topic}-user:1"
    command.ok("schema", "create", f"{topic}-order", "--schema", order, "--references", references)
    (found,) = command.json("schema", "references", f"{topic}-user", "--schema-version", "1")
    assert (found["subject"], found["type"]) == (f"{topic}-order", "PROTOBUF")
    assert command.run("schema", "delete", f"{topic}-user").code == 1


def test_levels_modes_and_contexts(command: CommandLine, topic: str) -> None:
    level = ("schema", "compatibility-level")
    assert command.json(*level, "get")[0] == {
        "subject": "{GLOBAL}",
        "level": "BACKWARD",
        "status": "OK",
    }
    command.ok(*level, "set", topic, "--level", "full")
    found = command.json(*level, "get", topic, "--global")
    assert [each["level"] for each in found] == ["FULL", "BACKWARD"]
    assert command.json(*level, "reset", topic)[0]["level"] == "BACKWARD"

    command.ok("schema", "mode", "set", topic, "--mode", "READONLY")
    assert command.json("schema", "mode", "get", topic)[0]["mode"] == "READONLY"
    schema = command.file("a.avsc", '"int"')
    assert "read-only" in command.run("schema", "create", topic, "--schema", schema).err
    assert command.json("schema", "mode", "reset", topic)[0]["mode"] == "READWRITE"

    command.ok("schema", "create", f":.{topic}:s", "--schema", schema)
    contexts = [each["context"] for each in command.json("schema", "context", "list")]
    assert {".", f".{topic}"} <= set(contexts)
    inside = command.json(
        "schema", "subject", "list", "--registry", f"{command.url}/contexts/.{topic}"
    )
    assert [each["subject"] for each in inside] == [f":.{topic}:s"]


@pytest.mark.parametrize(
    ("name", "schema", "options", "lines"),
    [
        ("a.avsc", AVRO, [], ['{"page":"/"}', '{"page":"/é"}']),
        ("b.json", JSON, [], ['{"n":1}', '{"n":2}']),
        ("c.proto", PROTO, ["--schema-type", "shop.B"], ['{"s":"x"}', '{"s":"y"}']),
    ],
)
def test_lines_of_json_are_written_and_read_by_their_schema(
    command: CommandLine, topic: str, name: str, schema: Any, options: list[str], lines: list[str]
) -> None:
    command.ok("topic", "create", topic)
    file = command.file(name, schema)
    (created,) = command.json("schema", "create", f"{topic}-value", "--schema", file)
    command.ok("schema", "create", f"{topic}-key", "--schema", command.file("k.avsc", '"string"'))
    both = "\n".join(f'"k" {line}' for line in lines)
    schemas = ("--schema-key-id", "topic", "--schema-id", str(created["id"]), *options)
    command.ok("topic", "produce", topic, "-f", "%k %v", *schemas, stdin=both)

    consume = ("topic", "consume", topic, "-o", ":end")
    shown = command.ok(*consume, "--use-schema-registry", "-f", "%k %v")
    assert shown.lines == both.splitlines()
    found = [
        json.loads(each)
        for each in command.ok(*consume, "--use-schema-registry=value", "--format", "json").lines
    ]
    assert [each["value"] for each in found] == [json.loads(each) for each in lines]
    assert {each["value_schema"] for each in found} == {created["id"]}
    assert "key_schema" not in found[0]


def test_a_line_that_does_not_fit_is_named(command: CommandLine, topic: str) -> None:
    command.ok("topic", "create", topic)
    file = command.file("j.json", JSON)
    command.ok("schema", "create", f"{topic}-value", "--schema", file)
    produce = ("topic", "produce", topic, "--schema-id", "topic")
    ended = command.run(*produce, stdin='{"n":1}\n{"n":"x"}\n')
    assert ended.code == 1
    assert "the value in line 2 cannot be written: the value does not fit" in ended.err
    missing = command.run("topic", "produce", topic, "--schema-key-id", "topic", stdin="1")
    assert missing.code == 1
    assert f"Subject '{topic}-key' not found." in missing.err


def test_what_does_not_decode_is_printed_and_counted_or_stops(
    command: CommandLine, topic: str
) -> None:
    command.ok("topic", "create", topic)
    file = command.file("j.json", JSON)
    command.ok("schema", "create", f"{topic}-value", "--schema", file)
    command.ok("topic", "produce", topic, "--schema-id", "topic", stdin='{"n":1}')
    command.ok("topic", "produce", topic, stdin="plain\ntext")

    consume = ("topic", "consume", topic, "-o", ":end", "--use-schema-registry=value")
    ended = command.run(*consume)
    assert (ended.code, ended.lines) == (0, ['{"n":1}', "plain", "text"])
    first, counted = ended.err.splitlines()
    assert f"the value at offset 1 of {topic}-0 does not decode" in first
    assert counted == "headrace: 2 values were not decoded"

    ended = command.run(*consume, "--fail-on-undecodable")
    assert (ended.code, ended.lines) == (1, ['{"n":1}'])
    assert "the value at offset 1" in ended.err


def test_a_login(broker: BrokerProcess, tmp_path: Path) -> None:
    secret = add_user(tmp_path / "users.txt", SUBJECT_USERS, "ann", ["write:orders-*"])
    with RegistryServer(
        settings(broker, "cli-schema-login", users=tmp_path / "users.txt")
    ) as server:
        command = CommandLine(broker.address, server.url, tmp_path)
        refused = command.run("schema", "list")
        assert refused.code == 1
        assert "wants a login (Unauthorized)" in refused.err
        assert "-X schema.registry.basic.auth.user.info" in refused.err
        login = ("-X", f"schema.registry.basic.auth.user.info=ann:{secret}")
        file = command.file("a.avsc", '"int"')
        command.ok("schema", "create", "orders-value", "--schema", file, *login)
        denied = command.run("schema", "create", "users-value", "--schema", file, *login)
        assert denied.code == 1
        assert "denied" in denied.err
        assert secret not in denied.err


def test_wrong_addresses_are_named(broker: BrokerProcess, tmp_path: Path, topic: str) -> None:
    command = CommandLine(broker.address, "http://127.0.0.1:1", tmp_path)
    command.ok("topic", "create", topic)
    for arguments in (
        ("schema", "list"),
        ("topic", "consume", topic, "-o", ":end", "--use-schema-registry"),
        ("topic", "produce", topic, "--schema-id", "topic"),
    ):
        ended = command.run(*arguments, stdin="{}")
        assert ended.code == 1, ended
        assert "no schema registry answers: http://127.0.0.1:1" in ended.err
        assert len(ended.err.splitlines()) == 1
    # The broker itself closes what is not Kafka's protocol.
    ended = command.run("schema", "list", "--registry", f"http://{broker.address}")
    assert ended.code == 1
    assert broker.address in ended.err
