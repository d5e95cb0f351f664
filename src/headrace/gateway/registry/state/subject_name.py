"""Names of subjects with their contexts: `orders-value`, `:.europe:orders-value`, `:.europe:`.

A context is a room of its own for subjects, ids and defaults. `.` is the default one, and a subject
in it is written without a context. `:.europe:` without a subject means the context itself, as the
key of its configuration and mode, or as a prefix of subjects.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
"""Its configuration and mode hold for contexts that have none."""

ANY_CONTEXT: Final = ":*:"
"""As a prefix of subjects: those of all contexts."""

_MOST_LETTERS: Final = 1024
_RESERVED: Final = frozenset({"__GLOBAL", "__EMPTY"})


@dataclass(frozen=True, slots=True, order=True)
class SubjectName:
    """A context and the name of a subject in it, which is empty for the context itself."""

    context: str
    subject: str

    @classmethod
    def of(cls, text: str) -> "SubjectName":
        """Read a qualified name.

        >>> SubjectName.of(":.europe:orders"), SubjectName.of("a:b")
        (SubjectName(context='.europe', subject='orders'), SubjectName(context='.', subject='a:b'))
        """
        if text.startswith(":."):
            context, mark, subject = text[1:].partition(":")
            if mark:
                return cls(context, subject)
        return cls(DEFAULT_CONTEXT, text)

    @property
    def text(self) -> str:
        """The name as keys and answers have it."""
        if self.context == DEFAULT_CONTEXT:
            return self.subject
        return f":{self.context}:{self.subject}"

    @property
    def is_context(self) -> bool:
        return not self.subject

    @property
    def config_key(self) -> str | None:
        """The key of its configuration and mode; None for those of the default context."""
        if self.is_context and self.context == DEFAULT_CONTEXT:
            return None
        return self.text

    def sibling(self, text: str) -> "SubjectName":
        """Return the subject that a reference of this one's schema names: in the same context
        unless it says another one."""
        if text.startswith(":."):
            return SubjectName.of(text)
        return SubjectName(self.context, text)

    @property
    def is_valid(self) -> bool:
        """Whether a schema may be registered under it."""
        return (
            0 < len(self.subject) <= _MOST_LETTERS
            and self.subject not in _RESERVED
            and self.subject.isprintable()
            and is_context_name(self.context)
        )


def is_context_name(context: str) -> bool:
    """Return whether a context can have this name.

    >>> is_context_name(".europe"), is_context_name("europe"), is_context_name(".a:b")
    (True, False, False)
    """
    return (
        context.startswith(".")
        and len(context) <= _MOST_LETTERS
        and context.isprintable()
        and ":" not in context
    )


def context_named(text: str) -> str:
    """Return the context that a path `/contexts/{text}/...` names, with or without its dot.

    >>> context_named("europe"), context_named(".europe"), context_named(":.europe:")
    ('.europe', '.europe', '.europe')
    """
    name = unquote(text).strip(":")
    return name if name.startswith(".") else f".{name}"


def is_below(subject: str, prefix: str) -> bool:
    """Return whether a subject begins with a prefix; one with a context looks into that context.

    >>> is_below("orders-value", "orders"), is_below(":.eu:orders", ":.eu:"), is_below(":.eu:a", "")
    (True, True, False)
    """
    if prefix.startswith(ANY_CONTEXT):
        return SubjectName.of(subject).subject.startswith(prefix[len(ANY_CONTEXT) :])
    wanted, name = SubjectName.of(prefix), SubjectName.of(subject)
    return wanted.context == name.context and name.subject.startswith(wanted.subject)
