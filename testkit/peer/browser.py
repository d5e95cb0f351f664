"""A real browser without a window: Debian's Chromium, driven by Playwright.

A page that complains on its console, fails with an error, or asks any other host for anything,
fails the test that opened it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from testkit.peer.peer import find_program

_TIMEOUT_MS = 60_000


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser.

    Raises:
        PeerMissing: there is no Chromium on this machine.
    """
    from playwright.sync_api import expect, sync_playwright

    program = find_program("chromium", package="chromium")
    expect.set_options(timeout=_TIMEOUT_MS)
    # Chromium's own sandbox does not work for root, which tests in containers often are.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def strict_page(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page of a console at `url`; at the end, nothing may have gone wrong in it.

    Args:
        options: of the browser's context: `viewport`, `color_scheme`, ...
    """
    complaints: list[str] = []
    host = urlsplit(url).netloc
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(_TIMEOUT_MS)
    page.on("console", lambda said: _note(complaints, said))
    page.on("pageerror", lambda error: complaints.append(f"an error: {error}"))
    page.on(
        "request",
        lambda asked: (
            None
            if urlsplit(asked.url).netloc == host or asked.url.startswith(("data:", "blob:"))
            else complaints.append(f"another host was asked: {asked.url}")
        ),
    )
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
    assert not complaints, complaints


def _note(complaints: list[str], said: Any) -> None:
    if said.type in ("error", "warning"):
        complaints.append(f"console {said.type}: {said.text} ({said.location.get('url')})")
