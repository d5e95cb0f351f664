"""Escapes such as \\t in an argument of the command line, where a tab is hard to type."""

import re

from headrace.model.error import InvalidArgument

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_LETTERS = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "%": b"%"}


def unescape(text: str) -> bytes:
    r"""Return the bytes of a text with `\n \t \r \0 \\ \xHH` replaced, the rest as UTF-8.

    >>> unescape(r"a\tb\x00")
    b'a\tb\x00'

    Raises:
        InvalidArgument: the text has an escape that is not one of these.
    """
    parts = []
    at = 0
    for match in _ESCAPE.finditer(text):
        parts.append(text[at : match.start()].encode())
        at = match.end()
        name = match[1]
        if name.startswith("x") and len(name) == 3:
            parts.append(bytes.fromhex(name[1:]))
        elif name in _LETTERS:
            parts.append(_LETTERS[name])
        else:
            raise InvalidArgument(
                rf"\{name} in {text!r} is no escape: there are \n, \t, \r, \0, \\ and \xHH"
            )
    parts.append(text[at:].encode())
    return b"".join(parts)
