"""The key of a delivered object, from the template of a channel.

    year=!{yyyy}/!{channel-name}-!{HH}!{extension}
    year=2026/clicks-17-1f0c9a7e-000000000003.parquet

Before the extension come the beginning of the channel's id and the number of the landing, so that
no two keys are equal. The times are those of the first record, in UTC. Keys of dead letters end
with `-errors.parquet`: they may lie in the same folder.
"""

import re
import time
from typing import Final

from headrace.gateway.kinesis.error import invalid_argument

DEFAULT_TEMPLATE: Final = (
    "kinesis-channel/!{channel-name}/!{channel-id}/!{yyyy}/!{MM}/!{dd}/!{HH}/"
    "!{channel-name}-!{channel-id}-!{yyyy}-!{MM}-!{dd}-!{HH}-!{mm}!{extension}"
)
"""The service's own."""

_ERROR_TEMPLATE: Final = "!{yyyy}/!{MM}/!{dd}/!{HH}/!{channel-name}"
EXTENSION: Final = ".parquet"
_TIMES: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M"}
_NAMES: Final = (*_TIMES, "channel-name", "channel-id", "stream-name", "extension")
_VARIABLE: Final = re.compile(r"!\{([^}]*)\}")
_ID_CHARACTERS: Final = 8
_LONGEST_KEY: Final = 1024
_LONGEST_NAME: Final = 255 - len("..9999999999.tmp")
"""Of a folder or file, with room for the name that a file has while it is written."""


def object_key(
    template: str, names: dict[str, str], time_ms: int, number: int, ending: str = EXTENSION
) -> str:
    """Return the key of an object.

    Args:
        names: values of the variables that are no time: `channel-name`, for instance.
        time_ms: of the first record.
        number: of the landing.
        ending: what comes behind the number.
    """
    moment = time.gmtime(max(0, time_ms) / 1000)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "extension":
            return ""
        return time.strftime(_TIMES[name], moment) if name in _TIMES else names[name]

    suffix = f"{names['channel-id'][:_ID_CHARACTERS]}-{number:012d}"
    return f"{_VARIABLE.sub(value, template)}-{suffix}{ending}"


def error_key(prefix: str, names: dict[str, str], time_ms: int, number: int) -> str:
    """Return the key of an object of dead letters. No template makes such a key for records."""
    template = f"{prefix.rstrip('/')}/{_ERROR_TEMPLATE}"
    return object_key(template, names, time_ms, number, f"-errors{EXTENSION}")


def check_template(template: str, names: dict[str, str]) -> None:
    """Refuse a template whose keys could not be names of files.

    Raises:
        ServiceError: it is not sound.
    """
    for name in _VARIABLE.findall(template):
        if name not in _NAMES:
            known = ", ".join(f"!{{{each}}}" for each in _NAMES)
            raise invalid_argument(f"OutputKeyTemplate has no variable !{{{name}}}; use {known}.")
    if re.search(r"[!{}]", _VARIABLE.sub("", template)):
        raise invalid_argument("OutputKeyTemplate has a !, { or } that is no part of a variable.")
    if "!{extension}" in template.removesuffix("!{extension}"):
        raise invalid_argument("OutputKeyTemplate can have !{extension} at its end only.")
    check_key(object_key(template, names, 0, 0), "OutputKeyTemplate")


def check_key(key: str, member: str) -> None:
    """Refuse a key that leaves its bucket, or that no folder can hold.

    Raises:
        ServiceError: it does.
    """
    parts = key.split("/")
    if any(each in ("", ".", "..") for each in parts):
        raise invalid_argument(f"{member} has an empty part, or one that is . or ..")
    if len(key) > _LONGEST_KEY or any(len(each) > _LONGEST_NAME for each in parts):
        raise invalid_argument(f"{member} makes keys that are too long.")
