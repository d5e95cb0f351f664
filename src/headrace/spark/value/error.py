"""Why a value could not be decoded."""

from headrace.model.error import HeadraceError
from headrace.serde.error import Undecodable as Undecodable  # raised by decoders of columns


class BadValue(HeadraceError):
    """A value that is not what valueFormat and valueSchema say, with valueMode FAILFAST."""
