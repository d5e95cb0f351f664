"""Takes pictures of a console's pages for the documentation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from testkit.peer.browser import chromium, strict_page

LARGE_SCREEN: Final = {"width": 1280, "height": 860}
PHONE: Final = {"width": 390, "height": 800}
THEMES: Final = ("light", "dark")
_LOADED: Final = "() => document.querySelector('#main tbody tr, #main .card, #main li') !== null"
# The page polls every few seconds, and animations must have ended.
_STILL_MS: Final = 3_500


def capture_console(
    url: str, folder: Path, pages: Mapping[str, str], phone: Mapping[str, str]
) -> None:
    """Save `console-NAME-THEME.png` of every page, and `console-NAME-phone.png` of some.

    Args:
        pages, phone: names of pictures, and the paths of the pages they show.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for theme in THEMES:
            with strict_page(browser, url, color_scheme=theme, viewport=LARGE_SCREEN) as page:
                for name, path in pages.items():
                    _shoot(page, path, folder / f"console-{name}-{theme}.png")
        small = {"viewport": PHONE, "is_mobile": True, "device_scale_factor": 2}
        with strict_page(browser, url, color_scheme="light", **small) as page:
            for name, path in phone.items():
                _shoot(page, path, folder / f"console-{name}-phone.png")


def _shoot(page: Any, path: str, to: Path) -> None:
    page.evaluate("path => { location.hash = path }", path)
    page.wait_for_selector("#main h1")
    page.wait_for_function(_LOADED)
    page.wait_for_timeout(_STILL_MS)
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=str(to))
