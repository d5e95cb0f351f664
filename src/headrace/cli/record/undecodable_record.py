"""A record that stops a strict `topic consume --use-schema-registry`."""

from headrace.model.error import HeadraceError


class UndecodableRecord(HeadraceError):
    """A record does not decode, and the user wants to know.

    Attributes:
        row: how many records before it do.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row
