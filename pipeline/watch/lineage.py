"""The tree of what a cluster came from and what it became, as text and as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from resonance.pipeline.errors import counted, second
from resonance.schemas import AutomaticNames, ClusterLife, ClusterNames, ClusterTable

Tie = Literal["split from", "goes on from", "absorbed", "split", "absorbed by", "goes on as"]
"""How a cluster of the tree belongs to the one above it, which is the subject: ``A absorbed B``."""

DEEPEST: Final = 40
"""Most steps from the cluster whose tree it is."""

SHOWN: Final = 30
"""Most clusters below one that text shows; JSON has all."""


@dataclass(slots=True)
class Relative:
    """A cluster in the tree of another one."""

    life: ClusterLife
    name: str
    """What people call it; empty where it has none."""
    automatic_name: str
    tie: Tie | None
    """How it belongs to the cluster above it; None for the cluster whose tree it is."""
    came_from: "list[Relative]" = field(default_factory=list)
    became: "list[Relative]" = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return all fields as plain values, with the time of the tie among those of the two lives."""
        life = asdict(self.life)
        own = {"name": self.name or None, "automatic_name": self.automatic_name or None}
        tie = {} if self.tie is None else {"tie": self.tie}
        below = {
            side: [each.as_json() for each in some]
            for side, some in (("came_from", self.came_from), ("became", self.became))
            if some or self.tie is None
        }
        return {**tie, "id": life.pop("id"), **own, **life, **below}


def tree_of(cluster: str, table: ClusterTable, names: ClusterNames, automatic: AutomaticNames) -> Relative:
    """Return the tree of a cluster that the table knows; each cluster is in it once, where it is found first."""
    seen = {cluster}

    def relative(name: str, tie: Tie | None) -> Relative:
        life = table.lives.get(name) or ClusterLife(name)
        return Relative(life, str(names.of(name)), automatic.last(name), tie)

    def grow(root: Relative, ties: Callable[[ClusterLife], list[tuple[str, Tie]]], side: str) -> None:
        # Breadth first, so that a cluster stands where it is nearest.
        level = [root]
        for _ in range(DEEPEST):
            following: list[Relative] = []
            for node in level:
                new = [relative(name, tie) for name, tie in ties(node.life) if name not in seen]
                seen.update(each.life.id for each in new)
                getattr(node, side).extend(new)
                following += new
            level = following

    root = relative(cluster, None)
    grow(root, _past, "came_from")
    grow(root, _future, "became")
    return root


def _past(life: ClusterLife) -> list[tuple[str, Tie]]:
    before: list[tuple[str, Tie]] = [(name, "absorbed") for name in life.absorbed]
    if life.origin is None:
        return before
    return [(life.origin, "split from" if life.beginning == "split" else "goes on from"), *before]


def _future(life: ClusterLife) -> list[tuple[str, Tie]]:
    after: list[tuple[str, Tie]] = [(name, "split") for name in life.splits]
    if life.heir is None:
        return after
    return [*after, (life.heir, "absorbed by" if life.end == "absorbed" else "goes on as")]


def lines_of(root: Relative) -> list[str]:
    """Return a tree as lines of text."""
    lines = [_described(root)]
    for title, side, some in (("came from", "came_from", root.came_from), ("became", "became", root.became)):
        lines.append(f"{title}: {'' if some else 'nothing that is stored' if side == 'came_from' else 'nothing else'}")
        lines[-1] = lines[-1].rstrip()
        lines += _below(some, side, "")
    return lines


def _below(some: Sequence[Relative], side: str, margin: str) -> list[str]:
    lines = []
    for number, node in enumerate(some[:SHOWN], start=1):
        is_last = number == len(some)
        lines.append(f"{margin}{'└' if is_last else '├'}─ {_tie(node, side)} {_described(node)}")
        lines += _below(getattr(node, side), side, f"{margin}{' ' if is_last else '│'}  ")
    if len(some) > SHOWN:
        lines.append(f"{margin}└─ and {len(some) - SHOWN:,} more (--json has them)")
    return lines


def _tie(node: Relative, side: str) -> str:
    if side == "came_from" or node.tie in ("absorbed by", "goes on as"):
        return str(node.tie)
    return "gave"


def _described(node: Relative) -> str:
    life = node.life
    called = f" ({node.name})" if node.name else f" [{node.automatic_name}]" if node.automatic_name else ""
    how = {"split": "split off", "version_started": "there"}.get(life.beginning or "", life.beginning or "")
    began = (
        f"{how} {'since ' if how == 'there' else ''}{second(life.began)}" if life.began else "its beginning is deleted"
    )
    end = {"version_started": "ended with its version", "stream_ended": "ended with its stream"}
    ended = f"{end.get(life.end or '', life.end)} {second(life.ended)}" if life.ended else "present"
    as_of = "" if life.ended else " at its last event"
    return f"{life.id}{called}: {counted(life.size, 'record')}{as_of}, {began}, {ended}"
