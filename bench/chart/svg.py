"""A small writer of SVG: elements with escaped text, inside a card that suits light and dark pages.

The card has its own background, so that a chart stays readable where the page's theme and the
browser's preferred colour scheme are not the same. Colours are classes; the style maps them twice.
Text is not measured: `text_width` is an upper estimate for the sans-serif fonts of common systems.
"""

from html import escape

WIDTH = 900
_LIGHT = {
    "card": "#ffffff",
    "frame": "#d0d7de",
    "text": "#1f2328",
    "quiet": "#59636e",
    "grid": "#e4e8ec",
    "axis": "#8c959f",
    "ours": "#0969da",
    "peer": "#8c959f",
    "second": "#bf8700",
    "missed": "#c4212b",
    "reached": "#1a7f37",
}
_DARK = {
    "card": "#0d1117",
    "frame": "#3d444d",
    "text": "#f0f6fc",
    "quiet": "#9aa4af",
    "grid": "#21262d",
    "axis": "#656c76",
    "ours": "#58a6ff",
    "peer": "#7d8590",
    "second": "#d29922",
    "missed": "#ff7b72",
    "reached": "#3fb950",
}
_RULES = """
text { font-family: -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
.card { fill: var(--card); stroke: var(--frame); }
.text { fill: var(--text); } .quiet { fill: var(--quiet); }
.missed { fill: var(--missed); } .reached { fill: var(--reached); }
.ours { fill: var(--ours); } .peer { fill: var(--peer); } .second { fill: var(--second); }
.grid { stroke: var(--grid); } .axis { stroke: var(--axis); }
.whisker { stroke: var(--text); stroke-width: 1.5; }
.line { fill: none; stroke-width: 2.5; }
.line.ours { fill: none; stroke: var(--ours); } .line.peer { fill: none; stroke: var(--peer); }
.hollow { fill: var(--card); stroke: var(--missed); stroke-width: 2; }
.bar-mark { stroke: var(--text); stroke-width: 1.5; stroke-dasharray: 3 2; }
"""


def document(title: str, description: str, height: float, content: list[str]) -> str:
    """Return a whole file; title and description are what a screen reader reads out."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}" role="img" aria-labelledby="title description">'
    )
    card = element("rect", x=0.5, y=0.5, width=WIDTH - 1, height=height - 1, rx=8, class_="card")
    lines = [
        head,
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(description)}</desc>',
        f"<style>{_colours(_LIGHT)}",
        f"@media (prefers-color-scheme: dark) {{ {_colours(_DARK)} }}{_RULES}</style>",
        card,
        *content,
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def element(tag: str, **attributes: str | float) -> str:
    """Return an empty element; `class_` and `stroke_width` lose their underscores."""
    return f"<{tag}{_attributes(attributes)}/>"


def label(
    words: str,
    x: float,
    y: float,
    *,
    kind: str = "text",
    size: int = 13,
    anchor: str = "start",
    bold: bool = False,
) -> str:
    """Return a line of text whose baseline is at `y`."""
    attributes: dict[str, str | float] = {"x": x, "y": y, "class_": kind, "font_size": size}
    if anchor != "start":
        attributes["text_anchor"] = anchor
    if bold:
        attributes["font_weight"] = 600
    return f"<text{_attributes(attributes)}>{escape(words, quote=False)}</text>"


def whisker(low: float, high: float, across: float, *, upright: bool) -> str:
    """Return an I-shaped mark from `low` to `high`, at `across` on the other axis."""
    cap = 4
    if upright:
        path = (
            f"M{across:.1f} {low:.1f}V{high:.1f}"
            f"M{across - cap:.1f} {low:.1f}h{2 * cap}M{across - cap:.1f} {high:.1f}h{2 * cap}"
        )
    else:
        path = (
            f"M{low:.1f} {across:.1f}H{high:.1f}"
            f"M{low:.1f} {across - cap:.1f}v{2 * cap}M{high:.1f} {across - cap:.1f}v{2 * cap}"
        )
    return element("path", d=path, class_="whisker", fill="none")


def text_width(words: str, size: int = 13) -> float:
    return len(words) * size * 0.56


def wrapped(words: str, width: float, size: int = 13) -> list[str]:
    """Return the words in lines that are not wider than `width`."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _attributes(given: dict[str, str | float]) -> str:
    parts = []
    for name, value in given.items():
        written = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
        parts.append(f' {name.rstrip("_").replace("_", "-")}="{escape(written)}"')
    return "".join(parts)


def _colours(palette: dict[str, str]) -> str:
    return ":root { " + " ".join(f"--{name}: {value};" for name, value in palette.items()) + " }"
