"""A headless Chromium, driven over its DevTools protocol: opens a page, looks at it, notes errors and requests."""

import asyncio
import base64
import shutil
import subprocess
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Tab:
    """A tab: what its console said that is an error, and every address that it requested."""

    def __init__(self, socket):
        self._socket = socket
        self._answers = {}
        self._number = 0
        self.errors = []
        self.requests = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self):
        async for message in self._socket:
            found = message.json()
            if "id" in found:
                self._answers.pop(found["id"]).set_result(found)
            elif found["method"] == "Runtime.exceptionThrown":
                self.errors.append(found["params"]["exceptionDetails"])
            elif found["method"] == "Log.entryAdded" and found["params"]["entry"]["level"] == "error":
                self.errors.append(found["params"]["entry"])
            elif found["method"] == "Network.requestWillBeSent":
                self.requests.append(found["params"]["request"]["url"])

    async def send(self, method, **parameters):
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        found = await asyncio.wait_for(answer, 30)
        assert "error" not in found, (method, found)
        return found["result"]

    async def look(self, width=1280, height=900, dark=False):
        """Set the size of the window, and whether the user prefers dark pages."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def open(self, address, until=""):
        """Open a page, and wait until an expression is true there."""
        await self.send("Page.navigate", url=address)
        if until:
            await self.wait(until)

    async def act(self, expression, until):
        """Do something in the page, and wait until an expression is true there."""
        await self.value(expression)
        await self.wait(until)

    async def value(self, expression):
        """The value of an expression of JavaScript in the page."""
        found = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def wait(self, expression, seconds=20):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        # While the page changes there may be no such element.
        trying = f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
        while not await self.value(trying):
            shown = "" if time.monotonic() < end else await self.text()
            assert time.monotonic() < end, f"not within {seconds} s: {expression}\n{shown}"
            await asyncio.sleep(0.02)

    async def text(self):
        return await self.value("document.body?.innerText")

    async def press(self, key):
        """Press a key such as Tab."""
        for kind in ("keyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=9)

    async def picture(self, file, whole=True):
        found = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(file).write_bytes(base64.b64decode(found["data"]))


@contextmanager
def chromium():
    """A Chromium; yields the port of its DevTools."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
        quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        process = subprocess.Popen(
            [CHROMIUM, *options, *quiet, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            note, end = Path(folder, "DevToolsActivePort"), time.monotonic() + 60
            while not note.exists() or not note.read_text().count("\n"):
                assert time.monotonic() < end, "Chromium does not start"
                time.sleep(0.05)
            yield int(note.read_text().split("\n")[0])
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def tab(port=None):
    """A tab of the Chromium with this port, or of one of its own."""
    with nullcontext(port) if port else chromium() as found:
        devtools = f"http://127.0.0.1:{found}/json"
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{devtools}/new?about:blank") as answer:
                page = await answer.json()
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                opened = Tab(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await opened.send(f"{domain}.enable")
                yield opened
            await session.get(f"{devtools}/close/{page['id']}")
