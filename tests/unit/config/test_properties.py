"""Java's properties format."""

from pathlib import Path

import pytest

from headrace.config.properties import (
    PropertyEntry,
    format_properties,
    parse_properties,
    property_values,
    read_properties,
)
from headrace.model.error import ConfigError


def values(text: str) -> dict[str, str]:
    return {key: entry.value for key, entry in parse_properties(text, {}).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("  a : 1  ", {"a": "1  "}),
        ("a 1", {"a": "1"}),
        ("a", {"a": ""}),
        ("# a = 1\n! b = 2\n\nc=3", {"c": "3"}),
        ("a = one \\\n    two\\\n  three", {"a": "one twothree"}),
        ("a = x\\\\\nb = y", {"a": "x\\", "b": "y"}),
        (r"a = \u00e4\t\:\=", {"a": "ä\t:="}),
        (r"a\=b = c", {"a=b": "c"}),
        (r"regex = ^(\\d+)\\s", {"regex": r"^(\d+)\s"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a = # no comment", {"a": "# no comment"}),
        ("a = last\\", {"a": "last"}),
    ],
)
def test_the_format_is_java_s(text: str, expected: dict[str, str]) -> None:
    assert values(text) == expected


def test_the_last_of_two_entries_counts_with_its_line() -> None:
    assert parse_properties("a=1\n\na=2", {}) == {"a": PropertyEntry("2", 3)}


def test_a_line_that_goes_on_counts_where_it_begins() -> None:
    found = parse_properties("#\na = 1 \\\n 2\nb = 3", {})
    assert (found["a"].line, found["b"].line) == (2, 4)


def test_environment_variables_stand_in_values() -> None:
    found = parse_properties("a = ${HOME}/x ${env:HOME} ${UNSET}", {"HOME": "/h"})
    assert found["a"].value == "/h/x /h ${UNSET}"


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none: No such file"):
        read_properties(tmp_path / "none", {})


def test_a_file_in_java_s_old_encoding_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("a = ä".encode("latin-1"))
    assert read_properties(tmp_path / "f", {})["a"].value == "ä"


def test_values_have_no_space_around_them_and_no_environment(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("listeners = PLAINTEXT://h:1,\\\n  SSL://h:2  \npath = ${HOME}\n")
    assert property_values(tmp_path / "f") == {
        "listeners": "PLAINTEXT://h:1,SSL://h:2",
        "path": "${HOME}",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=1\nauthorizer.class.name\n", "line 2: 'authorizer.class.name' has no '='"),
        ("a=1\n\n=v\n", "line 3: there is no key"),
    ],
)
def test_a_line_that_lost_its_key_or_value_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(text)

    with pytest.raises(ConfigError, match=said):
        property_values(file)


def test_an_empty_value_is_a_value(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("a=\nb: 2\nc 3\n")

    assert property_values(file) == {"a": "", "b": "2", "c": "3"}


@pytest.mark.parametrize(
    "values",
    [
        {"ssl.key.password": "hush=4711:#!"},
        {"a": "", "b c": "d", "#e": "f", "!g": "h", "i=j:k": "l"},
        {"a": "C:\\new\\table\\", "b": "one\ntwo\tthree\r\f four", "c": r"\u00e4"},
        {"ä": "ü€😀", "a": "#x", "b": "=y", "c": ":z"},
    ],
)
def test_what_is_written_is_read_back(values: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "x.properties"
    path.write_text(format_properties(values))

    assert property_values(path) == values
