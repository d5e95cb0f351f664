"""The axes of charts: round ticks from zero, or powers of ten, and figures as people write them."""

import math


def ticks_to(largest: float, most: int = 6) -> list[float]:
    """Return round numbers from 0 on, the last of which is at least `largest`."""
    rough = largest / (most - 1)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(each * magnitude for each in (1, 2, 2.5, 5, 10) if each * magnitude >= rough)
    return [step * number for number in range(math.ceil(largest / step - 1e-9) + 1)]


def steps_around(smallest: float, largest: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, from at most `smallest` to at least `largest`.

    There are at least two of them, so that an axis has a length.
    """
    first, last = math.floor(math.log10(smallest)) - 1, math.ceil(math.log10(largest)) + 1
    steps = [size * 10.0**power for power in range(first, last + 1) for size in (1, 2, 5)]
    below = max(number for number, step in enumerate(steps) if step <= smallest)
    above = min(number for number, step in enumerate(steps) if step >= largest)
    return steps[below : max(above, below + 1) + 1]


def figure(value: float) -> str:
    """Return a figure as the table of results writes it."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def tick_text(value: float) -> str:
    """Return a tick: 1.5 M, 200 k, 40, 0.25."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def times(ratio: float) -> str:
    """Return a ratio as the table of results writes it, without a fraction from 100 on."""
    return f"{ratio:.0f}×" if ratio >= 100 else f"{ratio:.2f}×"
