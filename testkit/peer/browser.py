"""A real browser without a window: Debian's Chromium, driven by Playwright.

A page that logs a warning or an error, or sends a request to another host, fails the test that
opened it.
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
    """Run the browser.

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
    """Open a page at `url`, and fail at the end if anything went wrong in it.

    Args:
        options: of the browser's context: `viewport`, `color_scheme`, ...
    """
    faults: list[str] = []
    host = urlsplit(url).netloc
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(_TIMEOUT_MS)
    page.on("console", lambda message: _note(faults, message))
    page.on("pageerror", lambda error: faults.append(f"an error: {error}"))
    page.on(
        "request",
        lambda request: (
            None
            if urlsplit(request.url).netloc == host or request.url.startswith(("data:", "blob:"))
            else faults.append(f"a request to another host: {request.url}")
        ),
    )
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
    assert not faults, faults


def _note(faults: list[str], message: Any) -> None:
    if message.type in ("error", "warning"):
        faults.append(f"console {message.type}: {message.text} ({message.location.get('url')})")
