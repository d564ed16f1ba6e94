"""What the tests in a browser share: Debian's Chromium, driven by Playwright, without a network.

KORISK_CHROMIUM names another program than /usr/bin/chromium. Where there is none, the tests are
skipped; with KORISK_BROWSER=required they fail instead, so that CI cannot pass without them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Containers give no sandbox and little shared memory; the rest keeps Chromium off the network.
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)


@contextmanager
def chromium(*, scrollbars: bool = False) -> "Iterator[Browser]":
    """A running browser, closed at the end; the test is skipped where there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed; pip install korisk[dev]")
    program = Path(os.environ.get("KORISK_CHROMIUM", "/usr/bin/chromium"))
    if not program.is_file():
        _missing(f"no browser at {program}; set KORISK_CHROMIUM to a Chromium program")
    with sync_playwright() as playwright:
        left_out = ["--hide-scrollbars"] if scrollbars else []
        browser = playwright.chromium.launch(
            executable_path=program, args=list(FLAGS), ignore_default_args=left_out
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def fresh_page(browser: "Browser", **settings: object) -> "Iterator[Page]":
    """An empty page in a context of its own that is offline and lets no script error pass."""
    context = browser.new_context(offline=True, **settings)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert not errors, f"the page's scripts failed: {errors}"
    finally:
        context.close()


def slide(page: "Page", position: int, name: str = "slider") -> None:
    page.evaluate(
        """([name, to]) => {
          const slider = document.getElementById(name);
          slider.value = to;
          slider.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
        [name, position],
    )
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown_facts(page: "Page", of: str = "facts") -> dict[str, str]:
    """The names and values of a list, also of one that is folded away."""
    script = (
        "(rows) => Object.fromEntries(rows.map((r) => [...r.children].map((c) => c.textContent)))"
    )
    found: dict[str, str] = page.eval_on_selector_all(f"#{of} > div", script)
    return found


def _missing(reason: str) -> NoReturn:
    if os.environ.get("KORISK_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
