"""What a user may do, by prefixes of names. Pure."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rights:
    """Prefixes of the names to which a user has each right."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()
    group: tuple[str, ...] = ()

    def covers(self, name: str, *verbs: str) -> bool:
        """Return whether one of these rights covers a name.

        >>> Rights(write=("orders-",)).covers("orders-eu", "read", "write")
        True
        """
        return any(name.startswith(each) for verb in verbs for each in getattr(self, verb))


EVERYTHING: Final = Rights(read=("",), write=("",), admin=("",), group=("",))
NOTHING: Final = Rights()
