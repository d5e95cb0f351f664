"""Translates the syntax of Java's regular expressions to Python's."""

import re

from headrace.ingest.settings import Settings

_NAMED = re.compile(r"\(\?<(?=[A-Za-z])")
_GROUP = re.compile(r"\$(\d)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\\(.)")


def compile_pattern(settings: Settings, key: str, written: str) -> re.Pattern[bytes]:
    """Compile a regular expression of a setting.

    Raises:
        SettingError: the text is no regular expression.
    """
    try:
        return re.compile(_NAMED.sub("(?P<", written).encode())
    except re.error as error:
        raise settings.wrong(key, f"{key} {written!r} is no regular expression: {error}") from None


def replacement(written: str) -> bytes:
    """Return a replacement with Java's `$1` and `${name}` as Python's `\\g<1>` and `\\g<name>`."""

    def translate(match: re.Match[str]) -> str:
        if match.group(3) is not None:
            return "\\\\" if match.group(3) == "\\" else match.group(3)
        return rf"\g<{match.group(1) or match.group(2)}>"

    return _GROUP.sub(translate, written).encode()
