"""The built files of the page are those of its sources, small, and of no other server."""

import json
import re
from pathlib import Path

from resonance.pipeline.page.files import page_files

from tests.pipeline.page.built import FOLDER, NOTE, digests


def test_the_built_files_are_of_these_sources():
    assert json.loads(NOTE.read_text()) == digests(), "run `make page`"


def test_the_page_is_small():
    assert sum(len(file.content) for file in page_files().values()) < 300_000


def test_the_lock_names_no_registry_and_no_licence_is_missing():
    lock = Path(FOLDER, "web", "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "http" not in lock
    assert "MIT" in page_files()["uplot-license.txt"].content.decode()


def test_no_file_names_another_server():
    for name, file in page_files().items():
        found = set(re.findall(rb"https?://[^\s\"'`)]+", file.content))
        assert found <= {b"http://www.w3.org/2000/svg"}, name
