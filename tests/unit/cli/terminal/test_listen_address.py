"""Addresses to listen on, as users write them."""

import pytest

from headrace.cli.terminal.listen_address import parse_listen_address
from headrace.model.error import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:8080", "0.0.0.0", 8080),
        ("[::1]:8080", "::1", 8080),
        (":8080", "127.0.0.1", 8080),
        ("8080", "127.0.0.1", 8080),
        ("localhost:0", "localhost", 0),
    ],
)
def test_an_address_has_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_listen_address(text, "--listen") == (host, port)


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:65536", "h:²", "h:-1"])
def test_a_text_that_is_no_address_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--listen cannot be .*: write it as host:port"):
        parse_listen_address(text, "--listen")
