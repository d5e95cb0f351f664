"""Examples below a command's help."""

import re

_EXAMPLE = re.compile(r" {2}(\S.*?)(?: {3,}(.*))?")
# Click rewraps every paragraph that does not begin with this mark.
_NO_REWRAP = "\b"


def epilog(text: str) -> str:
    """Lay out the examples of a command so that they stay readable on a narrow terminal.

    An indented line is an example: a command, then three spaces or more, then what it does. The
    explanation is moved to a line above the command. Other lines are prose.
    """
    blocks = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        example = _EXAMPLE.fullmatch(paragraph)
        if example is None:
            blocks.append(paragraph)
        elif example[2] is None:
            blocks.append(f"{_NO_REWRAP}\n  {example[1]}")
        else:
            blocks.append(f"{_NO_REWRAP}\n  # {example[2]}\n  {example[1]}")
    return "\n\n".join(blocks)
