"""Why a value could not be decoded."""

from headrace.model.error import HeadraceError


class BadValue(HeadraceError):
    """A value that is not what valueFormat and valueSchema say, with valueMode FAILFAST."""


class Undecodable(Exception):
    """Raised by the decoder of a column: at least one of its values cannot be decoded."""
