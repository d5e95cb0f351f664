"""The option --registry, and the settings of its login among those of the client."""

from typing import TYPE_CHECKING

from headrace.cli.terminal.pair import parse_pairs

if TYPE_CHECKING:
    from headrace.serde.registry_client_settings import RegistryClientSettings

_PREFIX = "schema.registry."
_URL = "schema.registry.url"


def split_registry(
    settings: list[str] | None, url: str | None
) -> "tuple[list[str], RegistryClientSettings | None]":
    """Return the settings of the client, and those of the registry; None without a registry.

    Args:
        settings: KEY=VALUE each; those of the registry begin with `schema.registry.`.
        url: of the option; overrides the setting.

    Raises:
        ConfigError: a setting of the registry that is none, or one without a URL.
    """
    pairs = list(settings or ())
    ours = [each for each in pairs if each.startswith(_PREFIX)]
    others = [each for each in pairs if not each.startswith(_PREFIX)]
    texts = parse_pairs(ours, "-X")
    if url is not None:
        texts[_URL] = url
    if not texts:
        return others, None
    from headrace.serde.registry_client_settings import RegistryClientSettings

    return others, RegistryClientSettings.of(texts)
