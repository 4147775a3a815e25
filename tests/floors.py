"""The floors of the house, from the imports: ``python -m tests.floors`` draws docs/floors.svg."""

import ast
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "floors.svg"

FLOORS = (
    ("text",),
    (
        *("bounded_cache", "columns", "crash_points", "errors", "exact_json", "json_paths", "logs", "machine"),
        *("stream_keys", "timestamps"),
    ),
    ("disk_map", "memory_budget", "records"),
    ("config", "mismatches", "record_columns"),
    ("registry",),
    *(("kafka", "task"), ("files", "repartition"), ("kernels", "tasks"), ("checkpoint",)),
    *(
        ("incidents", "inspect", "topics"),
        ("dead_letters", "peers", "recovery"),
        ("scorer", "watch", "worker"),
        ("demo", "forward", "page", "replay"),
        ("evaluate", "mcp_server", "verify"),
    ),
    ("shadow",),
    ("cli",),
)
"""Rooms of the pipeline, from the ground up: each imports only from the floors below it."""

_WIDTH, _MARGIN, _GAP, _LINE, _PER_ROW = 1080, 20, 10, 15, 4
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1f2933}.n{font-weight:600;font-size:13px}.s{fill:#52606d}"
    "rect{fill:#f0f4f8;stroke:#829ab1;rx:4}.g rect{fill:#e3f8ff;stroke:#40a9c9}"
)


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file."""
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> set[str]:
    """Every module that a file imports, by its full name."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imports_up() -> Iterator[str]:
    """Yield the imports of the pipeline that do not go to a lower floor."""
    pipeline = ROOT / "pipeline"
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    for path in sorted(pipeline.rglob("*.py")):
        own = path.relative_to(pipeline).parts[0].removesuffix(".py")
        for name in sorted(imported(path)):
            parts = name.split(".")
            is_other = parts[:2] == ["resonance", "pipeline"] and len(parts) > 2 and parts[2] != own
            if is_other and floor[parts[2]] >= floor[own]:
                yield f"{path.relative_to(ROOT)} imports {name}"


def subject(folder: str, room: str) -> str:
    """The first sentence of a room's docstring."""
    place = ROOT / folder / room
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    text = (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0]
    return " ".join(text.split()).rstrip(".").replace("``", "").replace("`", "")


def drawing() -> str:
    """The picture: one row for each floor, the command line on top, kernels at the bottom."""
    body: list[str] = []
    y = _MARGIN
    rows = [("pipeline", list(rooms[i : i + _PER_ROW])) for rooms in reversed(FLOORS) for i in range(0, len(rooms), 4)]
    for folder, rooms in [*rows, ("", ["engine", "schemas"]), ("src/resonance", ["kernels"])]:
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(rooms) - 1)) / len(rooms)
        texts = [textwrap.wrap(subject(folder, room), int((width - 16) / 6.1)) for room in rooms]
        height = 24 + _LINE * max(map(len, texts)) + 6
        body.append(f'<g class="{folder or "g"}">')
        for i, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            x = _MARGIN + i * (width + _GAP)
            body.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{height}"/>')
            body.append(f'<text class="n" x="{x + 8:.0f}" y="{y + 17}">{room}</text>')
            for number, line in enumerate(lines):
                body.append(
                    f'<text class="s" x="{x + 8:.0f}" y="{y + 17 + _LINE * (number + 1)}">{escape(line)}</text>'
                )
        body.append("</g>")
        y += height + _GAP
    size = f'width="{_WIDTH}" height="{y - _GAP + _MARGIN}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {y - _GAP + _MARGIN}">'
    background = '<path fill="#fff" d="M0 0h9999v9999H0z"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", background, *body, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawing())
