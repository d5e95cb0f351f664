"""Divides a stream of bytes into JSON objects that follow each other. Pure.

    splitter = JsonSplitter(most_bytes=1000)
    splitter.feed(b'{"a": 1}{"b"')     [b'{"a": 1}'], None
    splitter.feed(b': 2}')             [b'{"b": 2}'], None
    splitter.end()                     raises if an object is incomplete

Rule 1: pieces may be cut anywhere, also inside a character or an escape. The result is the same.
Rule 2: it holds at most one incomplete object, of at most `most_bytes`.
Rule 3: it looks for brackets and quotes only. Whether an object is valid JSON, its reader decides;
one that is not is still divided from the next one if its brackets and quotes agree.
Rule 4: after an error nothing can be divided any more: every later call returns it again.
"""

import re
from typing import Final

from headrace.gateway.rest.error import RestError, bad_request

MOST_DEPTH: Final = 200
_BRACKET: Final = re.compile(rb'[{}\[\]"]')
_NO_SPACE: Final = re.compile(rb"[^ \t\r\n]")


class JsonSplitter:
    """Objects of one request."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held = bytearray()
        self._open: list[int] = []
        self._in_text = False
        self._after_backslash = False
        self._error: RestError | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes of an incomplete object are held."""
        return len(self._held)

    def feed(self, piece: bytes) -> tuple[list[bytes], RestError | None]:
        """Return the objects that this piece completes, and the error behind them, if any:
        something else than an object follows, or one is too large or too deep."""
        complete: list[bytes] = []
        if self._error is None:
            try:
                self._divide(piece, complete)
            except RestError as error:
                self._error = error
                self._held.clear()
        return complete, self._error

    def end(self) -> None:
        """Note that nothing follows.

        Raises:
            RestError: an object is incomplete.
        """
        if self._error is None and self._held:
            self._error = bad_request("The request ends in the middle of a document.")
        if self._error is not None:
            raise self._error

    def _divide(self, piece: bytes, complete: list[bytes]) -> None:
        at = 0
        while at < len(piece):
            if not self._held:
                found = _NO_SPACE.search(piece, at)
                if found is None:
                    return
                at = found.start()
                if piece[at : at + 1] != b"{":
                    raise bad_request("A document has to be a JSON object.")
            end = self._end_of_object(piece, at)
            self._held += piece[at : len(piece) if end is None else end]
            if len(self._held) > self._most_bytes:
                raise RestError(413, f"A document has at most {self._most_bytes} bytes.")
            if end is None:
                return
            complete.append(bytes(self._held))
            self._held.clear()
            at = end

    def _end_of_object(self, piece: bytes, at: int) -> int | None:
        """Return where the object ends, or None if that is not in this piece."""
        while True:
            if self._in_text:
                after = self._end_of_text(piece, at)
                if after is None:
                    return None
                at = after
            found = _BRACKET.search(piece, at)
            if found is None:
                return None
            at = found.end()
            letter = piece[at - 1]
            if letter == 0x22:
                self._in_text = True
            elif letter in b"{[":
                if len(self._open) >= MOST_DEPTH:
                    raise bad_request("The document is nested too deeply.")
                self._open.append(letter + 2)  # its closing bracket
            elif not self._open or self._open.pop() != letter:
                raise bad_request("The brackets of a document do not agree.")
            elif not self._open:
                return at

    def _end_of_text(self, piece: bytes, at: int) -> int | None:
        """Return the place behind the closing quote, or None if that is not in this piece."""
        if self._after_backslash:
            self._after_backslash = False
            at += 1
        quote = -1
        while True:
            if quote < at:
                quote = piece.find(b'"', at)
                if quote < 0:
                    quote = len(piece)
            backslash = piece.find(b"\\", at, quote)
            if backslash < 0:
                if quote == len(piece):
                    return None
                self._in_text = False
                return quote + 1
            at = backslash + 2
            if at > len(piece):
                self._after_backslash = True
                return None
