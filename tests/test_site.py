"""The pages of docs/ become a site whose links lead somewhere and which loads nothing from other servers."""

import asyncio
import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, tab
from tests.page_pictures import PAGES

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("mkdocs", reason="`make site` installs MkDocs")
LOADED = {"src", "srcset", "data", "poster", "action", "xlink:href"}
"""Attributes whose address a browser loads by itself, beside the `href` of `link`."""
OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


def build(folder, config=ROOT / ".ci" / "site" / "mkdocs.yml"):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    return subprocess.run([*command, "--site-dir", str(folder)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


class Loads(HTMLParser):
    """What a browser loads for a page, and the classes in it."""

    def __init__(self):
        super().__init__()
        self.addresses, self.classes, self.styles = [], set(), []
        self._style = False

    def handle_starttag(self, tag, attrs):
        self._style = tag == "style"
        linked = tag in {"link", "use", "image"} and ("rel", "canonical") not in attrs
        for name, value in attrs:
            if name in LOADED or (linked and name == "href"):
                self.addresses.append(value)
            if name == "style":
                self.styles.append(value)
            if name == "class":
                self.classes |= set((value or "").split())

    def handle_data(self, data):
        if self._style:
            self.styles.append(data)


def test_no_page_and_no_style_names_anything_of_another_server(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        found = Loads()
        found.feed(page.read_text())
        assert [address for address in found.addresses if OUTSIDE.match(address)] == [], page
        assert [style for style in found.styles if "//" in style] == [], page
        # The theme would load the program that draws such diagrams.
        assert "mermaid" not in found.classes, page
    for style in site.rglob("*.css"):
        text = style.read_text()
        assert re.findall(r"@import[^;]*", text) == [], style
        assert [url for url in re.findall(r"url\(\s*[\"']?([^)]{0,80})", text) if OUTSIDE.match(url)] == [], style


def test_every_page_of_the_folder_is_in_the_navigation_and_the_schemas_are_there(site):
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").as_posix().replace("README.md", "index.md")
        assert (site / place).with_suffix(".html").exists(), place
    assert "Two commands" in (site / "index.html").read_text()
    for schema in (ROOT / "schemas").glob("*.schema.json"):
        assert (site / "schemas" / schema.name).read_bytes() == schema.read_bytes()
        assert f'href="schemas/{schema.name}"' in (site / "schemas.html").read_text()


def test_the_pictures_of_the_page_are_small():
    sizes = {file.name: file.stat().st_size for file in (ROOT / "docs" / "page").iterdir()}
    assert set(sizes) == {f"{name}.png" for name in PAGES}
    assert max(sizes.values()) < 150_000, sizes


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path):
    links = ("nowhere.md", "tutorial.md#nowhere", "../pipeline/watch")
    for part in ("docs", "schemas", ".ci/site"):
        shutil.copytree(ROOT / part, tmp_path / part)
    for file in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / file, tmp_path)
    with (tmp_path / "docs" / "alerts.md").open("a") as page:
        page.writelines(f"\n[Somewhere]({link})\n" for link in links)
    built = build(tmp_path / "built", tmp_path / ".ci" / "site" / "mkdocs.yml")
    assert built.returncode != 0
    assert all(f"link '{link.removeprefix('../')}'" in built.stderr for link in links), built.stderr


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(folder):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH (Debian: apt-get install chromium)")
@pytest.mark.slow
def test_a_browser_reads_and_searches_it_without_any_other_server(site):
    async def go():
        with served(site) as address:
            async with tab() as browser:
                for page in ("index.html", "tutorial.html", "engines/index.html", "settings.html"):
                    await browser.open(f"{address}/{page}")
                    await browser.wait("document.readyState === 'complete' && document.querySelector('h1')")
                script = "const q = document.querySelector('.md-search__input'); q.focus(); q.value = 'dead letters';"
                await browser.value(f"(() => {{ {script} q.dispatchEvent(new Event('keyup')); }})()")
                await browser.wait("document.querySelectorAll('.md-search-result__item').length > 3")
                assert browser.errors == []
                # Icons of the page itself.
                requested = [url for url in browser.requests if not url.startswith(("data:", "blob:"))]
                assert [url for url in requested if not url.startswith(address)] == []

    asyncio.run(go())
