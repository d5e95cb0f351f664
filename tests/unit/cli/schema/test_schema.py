"""`headrace schema`: what it reads and refuses before it asks a registry."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.command_group import app
from headrace.cli.completion import candidates
from headrace.cli.schema.argument import parse_version
from headrace.cli.schema.layout import difference, laid_out
from headrace.cli.schema.schema_file import FileType, parse_references, read_schema
from headrace.cli.terminal.registry_option import registry_settings
from headrace.model.error import ConfigError, InvalidArgument
from headrace.schema.schema import Reference, SchemaText, SchemaType
from testkit.process.command_line import run_headrace


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.avsc", SchemaType.AVRO),
        ("a.AVRO", SchemaType.AVRO),
        ("a.json", SchemaType.JSON),
        ("a.proto", SchemaType.PROTOBUF),
    ],
)
def test_a_files_ending_says_its_type(tmp_path: Path, name: str, kind: SchemaType) -> None:
    (tmp_path / name).write_text("é")
    assert read_schema(str(tmp_path / name), None, None) == SchemaText(kind, "é")


def test_an_option_overrides_the_ending(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    found = read_schema(str(tmp_path / "a.json"), FileType.AVRO, ["x:y:1"])
    assert found == SchemaText(SchemaType.AVRO, "{}", (Reference("x", "y", 1),))


def test_files_that_are_no_schemas_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"schema\.txt does not end with \.avsc"):
        read_schema("schema.txt", None, None)
    with pytest.raises(ConfigError, match=r"cannot read the schema .*No such file"):
        read_schema(str(tmp_path / "a.avsc"), None, None)
    (tmp_path / "a.avsc").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="no text"):
        read_schema(str(tmp_path / "a.avsc"), None, None)


def test_references_may_have_colons_in_names_and_contexts() -> None:
    found = parse_references(["shop.User:users-value:3, http://x/y:s:1", "a:.b::.c:d:2"])
    assert found == (
        Reference("shop.User", "users-value", 3),
        Reference("http://x/y", "s", 1),
        Reference("a:.b", ":.c:d", 2),
    )


@pytest.mark.parametrize("text", ["", "a", "a:b", "a:b:c", ":b:1", "a::1", "a:b:²"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="NAME:SUBJECT:VERSION"):
        parse_references([text])


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "²", "99999999999"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no version"):
        parse_version(text)


def test_a_difference_is_by_lines_of_the_laid_out_text() -> None:
    before = SchemaText(SchemaType.AVRO, '{"type":"fixed","name":"f","size":1}')
    after = SchemaText(
        SchemaType.AVRO, '{"type": "fixed", "name": "f", "size": 2}', (Reference("r", "s", 1),)
    )
    changed = [
        line
        for line in difference(before, after, ("a", "b"))
        if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
    ]
    assert changed == ['-  "size": 1', '+  "size": 2', "+// r is version 1 of s"]
    assert difference(before, before, ("a", "b")) == []
    assert laid_out(SchemaText(SchemaType.JSON, "{")) == "{"


def test_the_option_counts_before_settings_and_those_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_REGISTRY", "http://env")
    setting = ["schema.registry.url=http://setting", "sasl.username=me"]
    assert registry_settings("http://option", setting).urls == ("http://option",)
    assert registry_settings(None, setting).urls == ("http://setting",)
    assert registry_settings(None, None).urls == ("http://env",)
    monkeypatch.delenv("HEADRACE_REGISTRY")
    assert registry_settings(None, None).urls == ("http://127.0.0.1:8081",)
    with pytest.raises(ConfigError, match=r"sasl\.username"):
        registry_settings(None, setting, alone=True)


@pytest.fixture
def client_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def write(text: str) -> None:
        (tmp_path / "client.properties").write_text(text)
        monkeypatch.setenv("HEADRACE_CLIENT_CONFIG", str(tmp_path / "client.properties"))

    return write


def test_the_file_of_the_user_has_the_login_of_its_registry_only(
    client_file: Callable[[str], None],
) -> None:
    client_file(
        "bootstrap.servers=b:9092\nschema.registry.url=http://own\n"
        "schema.registry.basic.auth.user.info=me:secret\n"
    )
    own = registry_settings(None, None)
    assert own.urls == ("http://own",)
    assert own.authorization is not None
    assert registry_settings("http://other", None).authorization is None
    token = registry_settings(None, ["schema.registry.bearer.auth.token=t"])
    assert token.authorization == "Bearer t"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["get"], "say which schema"),
        (["get", "s", "--id", "1", "--schema-version", "2"], "give one"),
        (["get", "s", "--schema-version", "zero"], "is no version"),
        (["diff", "s", "1", "x"], "is no version"),
        (["create", "s", "--schema", "x.txt"], "--type avro, json or protobuf"),
        (["list", "--registry", "localhost:8081"], "no URL like"),
        (["list", "-X", "schema.registry.uri=x"], "schema.registry.url"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], words: str) -> None:
    done = run_headrace("schema", *arguments)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_an_unreachable_registry_is_named_with_the_way_to_another() -> None:
    done = run_headrace("schema", "list", "--registry", "http://me:secret@127.0.0.1:1")
    assert done.code == 1
    assert "no schema registry answers: http://127.0.0.1:1: " in done.err
    assert "--registry URL" in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "consume", "t", "--use-schema-registry=header"],
        ["topic", "consume", "t", "--fail-on-undecodable"],
        ["topic", "produce", "t", "--schema-type", "M"],
        ["topic", "list", "-X", "schema.registry.nothing=1"],
    ],
)
def test_options_for_schemas_are_checked_before_anything_is_done(arguments: list[str]) -> None:
    done = run_headrace(*arguments, "-b", "127.0.0.1:1")
    assert done.code == 2, done
    assert "schema" in done.err


def test_verbs_and_levels_are_completed() -> None:
    import typer

    def offered(*words: str) -> list[str]:
        return candidates(typer.main.get_command(app), ["schema", *words])

    assert {"create", "get", "subject", "mode"} <= set(offered(""))
    assert offered("mode", "") == ["get", "reset", "set"]
    assert "FULL" in offered("compatibility-level", "set", "--level", "")
    assert offered("create", "s", "--type", "") == ["avro", "json", "protobuf"]


def test_the_doctor_asks_the_registry_that_the_environment_names(tmp_path: Path) -> None:
    done = run_headrace(
        "doctor",
        "--data",
        str(tmp_path),
        "--format",
        "json",
        environment={"HEADRACE_REGISTRY": "http://127.0.0.1:1"},
    )
    (found,) = [each for each in json.loads(done.out) if each["what"] == "schema registry"]
    assert found["verdict"] == "warning"
    assert "no schema registry answers" in found["found"]
