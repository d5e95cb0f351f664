"""What can go wrong between a record and its schema."""

from typing import Final

from headrace.model.error import HeadraceError, ServiceUnavailable

_MOST_CHARACTERS: Final = 500


def brief(error: object) -> str:
    """Return the beginning of a library's error: some quote the whole schema."""
    return str(error)[:_MOST_CHARACTERS]


class RegistryError(HeadraceError):
    """The registry refused a request.

    Attributes:
        status: of HTTP.
        code: the registry's own, as 40403; the status where it sent none.
    """

    def __init__(self, message: str, status: int, code: int) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class RegistryUnreachable(ServiceUnavailable):
    """No registry of the list answers."""


class Undecodable(HeadraceError):
    """The bytes of a value are not what its schema, or the framing, says."""


class Unencodable(HeadraceError):
    """A value does not fit its schema."""
