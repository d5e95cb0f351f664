"""The keys of a registry's client."""

import pytest

from headrace.model.error import ConfigError
from headrace.serde.registry_client_settings import RegistryClientSettings

URL = "schema.registry.url"


def test_several_urls_lose_their_slashes_and_logins() -> None:
    found = RegistryClientSettings.of(
        {URL: "http://me:se%40cret@a:8081/, https://[::1]:8082/base/"}
    )
    assert found.urls == ("http://a:8081", "https://[::1]:8082/base")
    assert found.authorization == "Basic bWU6c2VAY3JldA=="


@pytest.mark.parametrize(
    ("more", "header"),
    [
        ({"basic.auth.user.info": "me:a:b"}, "Basic bWU6YTpi"),
        ({"bearer.auth.token": "t0k"}, "Bearer t0k"),
        ({}, None),
    ],
)
def test_a_login_is_a_header(more: dict[str, str], header: str | None) -> None:
    texts = {URL: "http://a"} | {f"schema.registry.{name}": text for name, text in more.items()}
    assert RegistryClientSettings.of(texts).authorization == header


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({}, "schema.registry.url is missing"),
        ({URL: "a:8081"}, "no URL like"),
        ({URL: "ftp://a"}, "no URL like"),
        ({URL: "http://a:notaport"}, "no URL like"),
        ({URL: "http://a?x=1"}, "no URL like"),
        ({URL: "http://a", "schema.registry.basic.auth.user.info": "me"}, "NAME:PASSWORD"),
        ({URL: "http://me:x@a", "schema.registry.bearer.auth.token": "t"}, "both a user and"),
        ({URL: "http://a", "schema.registry.bearer.auth.token": "tö"}, "no header takes"),
        ({URL: "http://a", "schema.registry.utl": "x"}, "schema.registry.utl"),
    ],
)
def test_what_cannot_be_is_refused_without_its_secrets(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RegistryClientSettings.of(texts)
    assert words in str(refused.value)


def test_secrets_are_in_no_text() -> None:
    assert "secret" not in repr(RegistryClientSettings.of({URL: "http://me:secret@a"}))


def test_keys_of_brokers_and_of_the_registry_are_separated() -> None:
    texts = {"bootstrap.servers": "a:1", URL: "http://b"}
    assert RegistryClientSettings.split(texts) == ({"bootstrap.servers": "a:1"}, {URL: "http://b"})
