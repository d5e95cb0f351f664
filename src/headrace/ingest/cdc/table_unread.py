"""A table that the stream shows before its rows are read."""


class TableUnread(Exception):
    """The stream has a change of a table whose rows were never read: they come first.

    It is no failure. The source leaves the stream, reads the table as it does at a start, and goes
    on where it was.
    """
