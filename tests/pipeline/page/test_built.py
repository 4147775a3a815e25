"""The built files of the page are those of its sources, small, and of no other server."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from resonance.pipeline.cli.watch import Kinds
from resonance.pipeline.demo.view import STYLES
from resonance.schemas.cluster_event import ClusterEventKind

from tests.pipeline.page.built import FOLDER, NOTE, digests

FILES = [path for path in NOTE.parent.iterdir() if path != NOTE]


def test_the_built_files_are_of_these_sources():
    assert json.loads(NOTE.read_text()) == digests(), "run `make page`"


@pytest.mark.parametrize("kind", get_args(ClusterEventKind))
def test_each_kind_of_event_has_a_sign_and_is_in_the_help(kind):
    assert f"{kind}: " in Path(FOLDER, "web", "src", "timeline.ts").read_text()
    assert kind in STYLES
    assert kind in get_args(Kinds)[1].help


def test_the_page_is_small():
    assert sum(path.stat().st_size for path in FILES) < 300_000


def test_the_lock_names_no_registry_and_no_licence_is_missing():
    lock = Path(FOLDER, "web", "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert "http" not in lock
    assert "MIT" in (NOTE.parent / "uplot-license.txt").read_text()


def test_no_file_names_another_server():
    for path in FILES:
        found = set(re.findall(rb"https?://[^\s\"'`)]+", path.read_bytes()))
        assert found <= {b"http://www.w3.org/2000/svg"}, path
