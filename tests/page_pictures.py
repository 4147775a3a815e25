"""Pictures of the web page: ``python -m tests.page_pictures`` draws those of the documentation anew (two minutes).

The steps of the tutorial on a real Kafka, with a page beside the worker, in a headless Chromium: each page at 1280 and
400 pixels, light and dark, whole, in ``build/pictures``; and of each page one picture of both widths in ``docs/page``.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
from PIL import Image

from tests.brokers import produce, running_broker
from tests.brokers.jvm import free_port
from tests.browser import tab

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
WHOLE, SHOWN = ROOT / "build" / "pictures", ROOT / "docs" / "page"
PAGES = {
    "overview": "/",
    "stream": "/stream?name=p1%3Am07",
    "cluster": "/cluster?id=p1%3Am07%2F1%2F0",
    "events": "/events",
    "operations": "/operations",
}
WIDTHS = (1280, 400)
HEIGHT, GAP = 900, 24
COLOURS = 160
"""Of a picture in the documentation: it then has some ten thousand bytes."""

OPEN = "document.querySelector('#main h1') && document.querySelector('#live').className"
BROKEN = [b"{not json", b'{"id": "x"}', b'{"id": "y", "temperature": "warm"}']


class Tutorial:
    """The deployment of the tutorial, in a folder."""

    def __init__(self, folder, bootstrap):
        self.folder = folder
        self.bootstrap = bootstrap
        self.address = f"http://127.0.0.1:{free_port()}"

    def command(self, *arguments):
        return [str(Path(sys.executable).with_name("resonance")), *arguments]

    def run(self, *arguments):
        subprocess.run(self.command(*arguments), cwd=self.folder, check=True)

    @contextmanager
    def running(self, *arguments):
        with (WHOLE / f"{arguments[0]}.log").open("w") as log:
            process = subprocess.Popen(self.command(*arguments), cwd=self.folder, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)

    def send(self):
        """Send the file of the tutorial, and some records that are no readings."""
        subprocess.run([sys.executable, ROOT / "docs" / "machines.py"], cwd=self.folder, check=True)
        options = re.search(r"resonance (produce machines\.csv.*)", TUTORIAL)[1].split()
        self.run(*options, "--broker", self.bootstrap)
        produce(self.bootstrap, "machines", [(1, b"m07", value) for value in BROKEN])

    def ask(self, path):
        with urllib.request.urlopen(f"{self.address}/api/{path}") as answer:  # noqa: S310
            return orjson.loads(answer.read())

    def wait(self, path, enough, seconds=60):
        end = time.monotonic() + seconds
        while True:
            with_error = None
            try:
                found = self.ask(path)
            except OSError as error:
                found, with_error = {}, error
            if found and enough(found):
                return
            assert time.monotonic() < end, (path, found, with_error)
            time.sleep(0.2)


def answered(found):
    """Whether the group has committed every record."""
    places = found["group"]["partitions"]
    return places and not any(each["lag"] for each in places)


async def draw(address):
    """Take the pictures; the last thing that each waits for is a second without a change."""
    async with tab() as browser:
        for width in WIDTHS:
            for dark in (False, True):
                await browser.look(width, HEIGHT, dark)
                for name, path in PAGES.items():
                    await browser.open(address + path)
                    await browser.wait(
                        "document.querySelector('#main h1') && document.querySelector('#live').className"
                    )
                    await asyncio.sleep(1.5)
                    scheme = "dark" if dark else "light"
                    await browser.picture(WHOLE / f"{name}-{width}-{scheme}.png")
                    over = await browser.value("document.documentElement.scrollWidth")
                    assert over <= width, f"{name} is {over} pixels wide in a window of {width}"
        assert browser.errors == []


def shown(name):
    """One picture of a page at both widths, the narrow one dark, in few colours."""
    wide, narrow = (
        Image.open(WHOLE / f"{name}-{width}-{scheme}.png").convert("RGB")
        for width, scheme in zip(WIDTHS, ("light", "dark"), strict=True)
    )
    height = min(max(wide.height, narrow.height), HEIGHT)
    both = Image.new("RGB", (wide.width + GAP + narrow.width, height), "white")
    both.paste(wide.crop((0, 0, wide.width, min(wide.height, height))))
    both.paste(narrow.crop((0, 0, narrow.width, min(narrow.height, height))), (wide.width + GAP, 0))
    both.quantize(COLOURS, dither=Image.Dither.NONE).save(SHOWN / f"{name}.png", optimize=True)


def main():
    for folder in (WHOLE, SHOWN):
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        bootstrap = stack.enter_context(running_broker())
        tutorial = Tutorial(Path(stack.enter_context(tempfile.TemporaryDirectory())), bootstrap)
        tutorial.send()
        port = free_port()
        os.environ["RESONANCE_WORKER__WEB_PORT"] = str(port)
        stack.enter_context(tutorial.running("page", "--port", tutorial.address.rpartition(":")[2]))
        tutorial.wait("overview", lambda found: found["loaded"] == 1)
        stack.enter_context(tutorial.running("worker"))
        tutorial.wait(
            "operations",
            lambda found: (
                found["group"]["partitions"] and not sum(each["lag"] for each in found["group"]["partitions"])
            ),
        )
        tutorial.run("inspect", "p1:m07/1/0", "--as", "milling")
        # What was read in a burst is drawn as such.
        time.sleep(5)
        asyncio.run(draw(tutorial.address))
    for name in PAGES:
        shown(name)


if __name__ == "__main__":
    main()
