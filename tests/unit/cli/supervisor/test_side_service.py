"""`headrace up --with`: which services, and what is refused by name."""

from typing import Any

import pytest

from headrace.cli.supervisor.side_service import SideService, side_services
from headrace.model.error import ConfigError


def test_services_are_listed_or_repeated_and_take_their_listeners() -> None:
    texts = {"console.listeners": "127.0.0.1:0", "num.partitions": "2"}

    found = side_services(["kinesis,console", "kinesis"], texts)

    assert found == [SideService("kinesis"), SideService("console", "127.0.0.1:0")]
    assert texts == {"num.partitions": "2"}
    assert side_services(None, texts) == []


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        (None, "http://127.0.0.1:8081"),
        ("127.0.0.1:8999", "http://127.0.0.1:8999"),
        ("[::1]:8999", "http://[::1]:8999"),
        ("127.0.0.1:0", None),
    ],
)
def test_a_console_beside_a_registry_is_connected_to_it(
    listen: str | None, url: str | None
) -> None:
    texts = {} if listen is None else {"registry.listeners": listen}
    found = side_services(["console,registry"], texts)
    assert found == [SideService("console", registry=url), SideService("registry", listen)]


@pytest.mark.parametrize(
    ("wishes", "texts", "sentence"),
    [
        (["ftp"], {}, "--with ftp: there is no such service; write one of console, kinesis, "),
        (["kinesis,rests"], {}, "--with rests"),
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


@pytest.mark.parametrize("listen", ["0.0.0.0:4567", "192.0.2.1:4567", "example.com:4567"])
def test_a_service_without_a_login_listens_on_this_machine_alone(listen: str) -> None:
    with pytest.raises(ConfigError, match="would let everyone in"):
        side_services(["kinesis"], {"kinesis.listeners": listen})
    with pytest.raises(ConfigError, match="headrace rest by itself, with a login"):
        side_services(["rest"], {"rest.listeners": listen})


@pytest.mark.parametrize("listen", ["127.0.0.1:4567", "localhost:0", "[::1]:4567"])
def test_any_loopback_address_will_do(listen: str) -> None:
    (service,) = side_services(["kinesis"], {"kinesis.listeners": listen})
    assert service.listen == listen


def test_the_registry_is_one_of_them() -> None:
    (service,) = side_services(["registry"], {"registry.listeners": "127.0.0.1:18081"})
    assert service == SideService("registry", "127.0.0.1:18081")
