"""Examples below a command's help."""

import re

_EXAMPLE = re.compile(r" {2}(\S.*?)(?: {3,}(.*))?")
# Click puts paragraphs together again after their lines, but for those under this mark.
_AS_IT_IS = "\b"


def epilog(text: str) -> str:
    """Lay out examples so that they survive any width of terminal.

    A line that is indented is an example: the command, then, three spaces or more behind it, what
    it does, which is put above it. Other lines are prose.
    """
    blocks = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        example = _EXAMPLE.fullmatch(paragraph)
        if example is None:
            blocks.append(paragraph)
        elif example[2] is None:
            blocks.append(f"{_AS_IT_IS}\n  {example[1]}")
        else:
            blocks.append(f"{_AS_IT_IS}\n  # {example[2]}\n  {example[1]}")
    return "\n\n".join(blocks)
