"""`headrace up --with`: which services, and what is refused by name."""

from typing import Any

import pytest

from headrace.cli.side_service import SideService, side_services
from headrace.model.error import ConfigError


def test_services_are_listed_or_repeated_and_take_their_listeners() -> None:
    texts = {"console.listeners": "127.0.0.1:0", "num.partitions": "2"}

    found = side_services(["kinesis,console", "kinesis"], texts)

    assert found == [SideService("kinesis"), SideService("console", "127.0.0.1:0")]
    assert texts == {"num.partitions": "2"}
    assert side_services(None, texts) == []


@pytest.mark.parametrize(
    ("wishes", "texts", "sentence"),
    [
        (["registry"], {}, "--with registry: there is no such service; write one of console, kin"),
        (["kinesis,rest"], {}, "--with rest"),
        ([""], {}, "there is no such service"),
        (None, {"kinesis.listeners": "127.0.0.1:1"}, "kinesis.listeners needs --with kinesis"),
        (["kinesis"], {"kinesis.keys": "keys.txt"}, "kinesis.keys is no key of headrace up"),
        (["kinesis"], {"kinesis.listeners": "nowhere"}, "kinesis.listeners"),
    ],
)
def test_what_is_not_known_is_refused_by_name(
    wishes: Any, texts: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as error:
        side_services(wishes, texts)
    assert sentence in str(error.value)
