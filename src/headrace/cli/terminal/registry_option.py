"""The options of every command that talks to a schema registry."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.terminal.option import REGISTRY_PREFIX
from headrace.cli.terminal.pair import parse_pairs
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE, configured_client

if TYPE_CHECKING:
    from headrace.serde.registry_client import RegistryClient
    from headrace.serde.registry_client_settings import RegistryClientSettings

REGISTRY_VARIABLE: Final = "HEADRACE_REGISTRY"
DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"
_URL: Final = "schema.registry.url"
_LOGIN: Final = ("schema.registry.basic.auth.", "schema.registry.bearer.auth.")

RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL,...",
        help=f"Where the schema registry is; else ${REGISTRY_VARIABLE}, else"
        f" ${CLIENT_CONFIG_VARIABLE}'s, else {DEFAULT_REGISTRY}.",
    ),
]
RegistrySettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="A setting, such as schema.registry.basic.auth.user.info.",
    ),
]


def registry_settings(
    registry: str | None, settings: list[str] | None, *, alone: bool = False
) -> "RegistryClientSettings":
    """Return how to reach the registry of a command.

    `--registry` overrides `-X schema.registry.url`, that the environment, and all of them the file
    of `$HEADRACE_CLIENT_CONFIG`. The file's login is only for the registry that the file names, or
    for any if it names none: another must not be sent this password.

    Args:
        alone: the command talks to no broker, so that `-X` has no other settings.

    Raises:
        ConfigError: a setting does not exist or cannot be used.
    """
    from headrace.serde.registry_client_settings import RegistryClientSettings

    texts = parse_pairs(settings, "-X")
    if not alone:
        texts = RegistryClientSettings.split(texts)[1]
    return RegistryClientSettings.of({_URL: DEFAULT_REGISTRY, **_with_defaults(registry, texts)})


def optional_registry(
    registry: str | None, settings: list[str] | None
) -> "tuple[list[str], RegistryClientSettings | None]":
    """Return the settings of a service for its brokers, and how to reach its registry.

    The registry is found as in `registry_settings`, but there is none by default.

    Raises:
        ConfigError: a setting does not exist or cannot be used, or there is a login but no URL.
    """
    from headrace.serde.registry_client_settings import RegistryClientSettings

    others, ours = RegistryClientSettings.split(parse_pairs(settings, "-X"))
    texts = _with_defaults(registry, ours)
    pairs = [f"{name}={text}" for name, text in others.items()]
    return pairs, RegistryClientSettings.of(texts) if texts else None


def _with_defaults(registry: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that were given, with those of the environment and of the file."""
    from headrace.serde.registry_client_settings import RegistryClientSettings

    texts = dict(given)
    if registry is not None:
        texts[_URL] = registry
    elif _URL not in texts and os.environ.get(REGISTRY_VARIABLE):
        texts[_URL] = os.environ[REGISTRY_VARIABLE]
    file = RegistryClientSettings.split(configured_client())[1]
    elsewhere = _URL in file and file[_URL] != texts.get(_URL, file[_URL])
    logged_in = any(key.startswith(_LOGIN) for key in texts)
    for key, text in file.items():
        if not ((elsewhere or logged_in) and key.startswith(_LOGIN)):
            texts.setdefault(key, text)
    return texts


@contextmanager
def connect_registry(
    registry: str | None, settings: list[str] | None, *, alone: bool = False
) -> "Iterator[RegistryClient]":
    """Connect to the registry of a command. Errors say how to name another one, or how to log in.

    Raises:
        ConfigError: a setting does not exist or cannot be used.
        RegistryUnreachable: no registry answers.
        RegistryError: it refused a request.
    """
    from headrace.serde.error import RegistryError, RegistryUnreachable
    from headrace.serde.registry_client import RegistryClient

    with RegistryClient(registry_settings(registry, settings, alone=alone)) as client:
        try:
            yield client
        except RegistryUnreachable as error:
            raise RegistryUnreachable(
                f"{error}; name another with --registry URL, or start one: headrace registry"
            ) from error
        except RegistryError as error:
            if error.status != 401:
                raise
            raise RegistryError(
                f"the schema registry wants a login ({error}): "
                f"-X {REGISTRY_PREFIX}basic.auth.user.info=NAME:SECRET",
                error.status,
                error.code,
            ) from error
