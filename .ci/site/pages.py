"""The README, the changelog and the schemas on the site of docs/, and links that lead to them."""

import json
import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ADDED = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "schemas": "schemas.md"}
"""Places of the repository, and the page of the site that each becomes."""
LINK = re.compile(r"(\]\()(?![a-z]+://)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files that are not in docs/."""
    schemas = sorted((ROOT / "schemas").glob("*.schema.json"))
    texts = {place: ROOT / place for place in ADDED}
    for place, page in ADDED.items():
        text = _table(schemas) if place == "schemas" else texts[place].read_text()
        files.append(File.generated(config, page, content=text))
    for schema in schemas:
        files.append(File.generated(config, f"schemas/{schema.name}", abs_src_path=str(schema)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links lead to places of the site, not of the repository."""
    names = {page: place for place, page in ADDED.items()}
    source = PurePosixPath(names.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    folder = PurePosixPath(page.file.src_uri).parent
    if source.name == "schemas":
        return markdown

    def there(link: re.Match[str]) -> str:
        target = os.path.normpath(source.parent / link[2])
        place = ADDED.get(target, target.removeprefix("docs/"))
        return link[1] + os.path.relpath(place, folder)

    return LINK.sub(there, markdown)


def _table(schemas: list[Path]) -> str:
    """Return the page that lists the schemas."""
    found = {path: json.loads(path.read_text()) for path in schemas}
    rows = [f"| [{path.name}](schemas/{path.name}) | {schema['description']} |" for path, schema in found.items()]
    return "\n".join(["# Schemas of the outputs", "", "| JSON Schema | what it describes |", "|---|---|", *rows, ""])
