"""What differs between the users of one gateway and those of another."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserKind:
    """The users of one gateway.

    Attributes:
        service: the gateway, as events in its log begin.
        verbs: the rights that its users may have.
        everything: the options with which a user may do everything.
        qualify: returns the prefix with which names are compared, of one as it is written.
    """

    service: str
    verbs: tuple[str, ...]
    everything: str
    qualify: Callable[[str], str] = str

    @property
    def command(self) -> str:
        """The command that adds a user."""
        return f"headrace {self.service} user add"

    @property
    def forms(self) -> str:
        """How rights are written, for sentences about wrong ones.

        >>> UserKind("rest", ("read", "write"), "--write '*'").forms
        'read:PREFIX or write:PREFIX'
        """
        forms = [f"{verb}:PREFIX" for verb in self.verbs]
        return " or ".join((", ".join(forms[:-1]), forms[-1]))
