"""Adds a user of a gateway: `headrace registry user add`, `headrace rest user add`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.model.error import ConfigError

if TYPE_CHECKING:
    from headrace.gateway.access.user_kind import UserKind


def add_gateway_user(
    file: Path,
    kind: "UserKind",
    name: str,
    prefixes: Mapping[str, Sequence[str] | None],
    *,
    hint: str,
) -> None:
    """Write a user with these rights to a file, and print its name and new secret.

    Args:
        prefixes: of the names that each right covers, by right.
        hint: how to name rights, for a user without any.

    Raises:
        ConfigError: the user would have no rights, or the file cannot be written.
    """
    from headrace.gateway.access.user import add_user

    rights = [f"{right}:{each}" for right, listed in prefixes.items() for each in listed or ()]
    if not rights:
        raise ConfigError(f"{name} would have no rights: {hint}")
    print(f"{name}:{add_user(file, kind, name, rights)}")
