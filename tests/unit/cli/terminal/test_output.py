"""Tables and JSON."""

import json

import pytest
import typer

from headrace.cli.terminal.output import finish, print_fields, print_rows, status
from headrace.cli.terminal.output_format import OutputFormat
from headrace.client.error import BrokerError
from headrace.wire.error_code import ErrorCode


def test_a_table_has_numbers_on_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(OutputFormat.TEXT, ["name", "log_end"], [("a", 5), ("longer", 1000), ("b", None)])
    assert capsys.readouterr().out == (
        "NAME    LOG-END\na             5\nlonger     1000\nb             -\n"
    )


def test_json_has_the_same_as_objects(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(OutputFormat.JSON, ["name", "log_end"], [("a", 5)])
    assert json.loads(capsys.readouterr().out) == [{"name": "a", "log_end": 5}]


def test_an_empty_table_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(OutputFormat.TEXT, ["name", "size"], [])
    assert capsys.readouterr().out == "NAME  SIZE\n"


def test_fields_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"name": "a", "total_lag": 0, "internal": True, "in_sync": [1, 2]})
    assert capsys.readouterr().out == (
        "NAME       a\nTOTAL-LAG  0\nINTERNAL   yes\nIN-SYNC    [1 2]\n"
    )


def test_a_status_names_the_code_and_says_what_it_means() -> None:
    assert status(None) == "OK"
    assert status(BrokerError(ErrorCode.non_empty_group)) == (
        "NON_EMPTY_GROUP: the group has members: stop them first"
    )
    assert status(BrokerError(ErrorCode.invalid_config, "no such key")) == (
        "INVALID_CONFIG: no such key"
    )


def test_one_failed_item_fails_the_command() -> None:
    finish([None, 3])
    with pytest.raises(typer.Exit) as ended:
        finish([None, BrokerError(ErrorCode.invalid_config)])
    assert ended.value.exit_code == 1
