"""Which sources the built files of the page are of: ``python -m tests.pipeline.page.built`` notes it after a build."""

import hashlib
import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "pipeline" / "page"
NOTE = FOLDER / "static" / "built.json"


def digests():
    """Digests of all sources and built files; they need no node."""
    files = [path for part in ("web", "static") for path in (FOLDER / part).rglob("*") if path.is_file()]
    return {
        path.relative_to(FOLDER).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path != NOTE
    }


if __name__ == "__main__":
    NOTE.write_text(json.dumps(digests(), indent=1) + "\n")
