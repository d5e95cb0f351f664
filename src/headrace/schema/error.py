"""What is wrong with a schema that cannot be taken."""


class InvalidSchema(Exception):
    """The text is no schema of its type (error 42201). One sentence says what and where."""
