"""The text of PostgreSQL's arrays: `{1,NULL,"a, b",{2}}`."""


def parse_array(text: str) -> list[object]:
    """Return the elements: texts, None for NULL, and lists for further dimensions.

    >>> parse_array('{1,NULL,"a \\\\"b\\\\"",{}}')
    ['1', None, 'a "b"', []]

    Raises:
        ValueError: the text is no array.
    """
    start = text.find("{")  # after [lower:upper]= of arrays that do not begin at 1
    if start < 0:
        raise ValueError(f"{text[:40]!r} is no array")
    values, end = _parse(text, start + 1)
    if end != len(text):
        raise ValueError(f"{text[:40]!r} goes on after its last brace")
    return values


def _parse(text: str, at: int) -> tuple[list[object], int]:
    values: list[object] = []
    while at < len(text):
        match text[at]:
            case "}":
                return values, at + 1
            case ",":
                at += 1
            case "{":
                inner, at = _parse(text, at + 1)
                values.append(inner)
            case '"':
                value, at = _quoted(text, at + 1)
                values.append(value)
            case _:
                end = at
                while end < len(text) and text[end] not in ",}":
                    end += 1
                word = text[at:end]
                values.append(None if word == "NULL" else word)
                at = end
    raise ValueError(f"{text[:40]!r} ends inside an array")


def _quoted(text: str, at: int) -> tuple[str, int]:
    characters: list[str] = []
    while at < len(text):
        if text[at] == '"':
            return "".join(characters), at + 1
        if text[at] == "\\":
            at += 1
        characters.append(text[at : at + 1])
        at += 1
    raise ValueError(f"{text[:40]!r} ends inside a text")
