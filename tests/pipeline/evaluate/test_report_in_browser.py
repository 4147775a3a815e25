"""The reports in a headless Chromium: they request nothing, and fit narrow and wide windows, light and dark."""

import asyncio

import pytest
from resonance.pipeline.evaluate.report import PAGE

from tests.browser import CHROMIUM, tab
from tests.pipeline.commands import run
from tests.pipeline.evaluate.generated import GIVEN, SMALL, write
from tests.pipeline.shadow.two import LIVE, SHADOW, both

__all__ = ["both"]

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH (Debian: apt-get install chromium)"),
    pytest.mark.slow,
]


async def look(address):
    """Open a page in windows of several sizes; return its backgrounds."""
    colours = set()
    async with tab() as browser:
        for width in (1280, 400):
            for dark in (False, True):
                await browser.look(width, dark=dark)
                await browser.open(address)
                await browser.wait("document.querySelector('pre')")
                # Wide parts scroll within the page.
                assert await browser.value("document.documentElement.scrollWidth") == width
                assert await browser.value(
                    "Math.min(...[...document.querySelectorAll('img')].map(picture => picture.clientHeight))"
                )
                colours.add(await browser.value("getComputedStyle(document.body).backgroundColor"))
        assert browser.errors == []
        assert {each for each in browser.requests if not each.startswith("data:")} == {address}
    return colours


def test_an_evaluation_opens_without_a_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "machines.jsonl")
    own = ("--truth", "kind", "-e", "caea", "-e", "modal", "--processes", "1", "-o", "out")
    assert run(monkeypatch, "evaluate", "machines.jsonl", *GIVEN, *SMALL, *own) == 0
    assert len(asyncio.run(look((tmp_path / "out" / PAGE).as_uri()))) == 2


def test_a_comparison_opens_without_a_network(both, tmp_path, monkeypatch):
    own = ("--contents", "--cost", "-o", str(tmp_path / "out"))
    assert run(monkeypatch, "compare", LIVE, SHADOW, *own) == 0
    assert len(asyncio.run(look((tmp_path / "out" / PAGE).as_uri()))) == 2
