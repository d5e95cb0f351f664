"""What the three formats have in common."""

from abc import ABC, abstractmethod
from typing import Any


class Codec(ABC):
    """Reads and writes values of one schema.

    `decode` and `encode` work with plain Python: what JSON has, and `bytes`, dates, times and
    decimals where a format has them. `to_json` and `from_json` work with what JSON alone has, in
    the form that the format itself lays down for JSON. Each is the other's inverse.

    Threads: any.
    """

    @abstractmethod
    def decode(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> Any:
        """Return the value in a payload without framing.

        Args:
            indexes: of the message, in Protobuf.

        Raises:
            Undecodable: the bytes are not of this schema.
        """

    @abstractmethod
    def encode(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        """Return a payload without framing.

        Raises:
            Unencodable: the value does not fit.
        """

    def to_json(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> Any:
        """Return the value in a payload as JSON; a union in Avro names its branch.

        Raises:
            Undecodable: the bytes are not of this schema.
        """
        return self.decode(data, indexes)

    def from_json(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        """Return the payload of a value in JSON.

        Raises:
            Unencodable: the value does not fit.
        """
        return self.encode(value, indexes)
