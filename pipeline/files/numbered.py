"""Names made alike with running numbers, such as W101 to W116: those of devices, where they are about equally busy."""

import re
from typing import Final

from resonance.pipeline.files.explained import goes_through, is_actor, is_kind, no_products
from resonance.pipeline.files.kinds import last
from resonance.pipeline.files.proofs import SLIPS
from resonance.pipeline.files.survey import FileSurvey

FEWEST_NAMES: Final = 5
"""Names from which on it says something that they are made alike: of fewer each may be a kind."""

BUSY: Final = 2.5
"""Most records of a device, in those of the one in the middle, and these in the least: kinds are far more unequal."""

RUNNING: Final = 0.5
"""Part of the numbers from the least to the largest one that are there, at least: those of parts and articles are not.
"""

IN_A_ROW: Final = 1.25
"""How often a name follows itself, in that by chance, at most: a machine makes many of a product, one after another."""

_PART = re.compile(r"[0-9]+|[^\W\d_]+|[\W_]+")
_NO_DEVICE = re.compile(
    r"(?i)(.*[^a-z])?(zip|plz|postal|post[ _-]?code|postleitzahl|errors?|fehler|alarms?|warnings?|st(oe|ö)rung|faults?"
    r"|codes?|batch|lot|charge|los|order|auftrag|bestellung|job|task|trip|tour|ticket|case|session|sitzung|visit|user"
    r"|customer|client|kunde|member|person|staff|operator|driver|fahrer|bediener|employee|mitarbeiter|cashier|patient"
    r"|card|karte|item|part|article|artikel|teil|sku|product|produkt|grade|class|klasse|g(ue|ü)te|note|score|rank|tariff?"
    r"|rate|plan|group|gruppe|team|crew|shift|schicht|category|kategorie|type|typ|kind|version|question|frage|answer|room"
    r"|slot|by|reel|rolle|coil|roll|container|pallet|palette|package|paket|sample|probe|experiment|trial|run)"
    r"([ ._-]?(id|name|no|nr|num|number|key|code|nummer))?|.*[a-z](?-i:Code|Type|Class|Group|By)"
)
"""What is numbered as well, and no device: it says of which kind a record is, who was there, or what was made."""


def is_numbered(seen: FileSurvey, path: str) -> bool:
    """Return whether a column has the names of devices, though neither its name nor times prove it.

    They are made alike, with running numbers, go through the whole file, are about equally busy, and in no order.
    """
    column = seen.columns[path]
    if is_kind(path) or is_actor(path) or not no_products((path,)) or _NO_DEVICE.fullmatch(last(path)):
        return False
    if not column.only(str) or column.counts is None:
        return False
    ordered = sorted(column.counts.items(), key=lambda each: each[1])
    while ordered and ordered[0][1] <= SLIPS * ordered[len(ordered) // 2][1]:
        ordered.pop(0)  # A name with a slip.
    counts = [count for _, count in ordered]
    if (
        len(counts) < FEWEST_NAMES
        or counts[-1] > BUSY * (middle := counts[len(counts) // 2])
        or middle > BUSY * counts[0]
    ):
        return False
    by_chance = sum(count * count for count in counts) / sum(counts)
    in_a_row = column.present - 1 - column.changes
    return in_a_row <= IN_A_ROW * by_chance and _made_alike([name for name, _ in ordered]) and goes_through(seen, path)


def _made_alike(names: list[str]) -> bool:
    """Return whether names differ in running numbers, and in words at most where these are fewer."""
    parts = [_PART.findall(name) for name in names]
    if {len(each) for each in parts} != {len(parts[0])}:
        return False
    places = list(zip(*parts, strict=True))
    numbers = [place for place in places if len({*place}) > 1 and all(map(str.isdecimal, place))]
    others = [place for place in places if len({*place}) > 1 and place not in numbers]
    if not numbers or any(2 * len({*place}) > len(names) or not all(map(str.isalpha, place)) for place in others):
        return False
    # A1 and A2 are classes as well: an own word, or as many digits in each, is a name.
    is_word = any(len(text) > 1 for place in places for text in place if text.isalpha())
    is_padded = any({len(text) for text in place} in ({2}, {3}, {4}, {5}) for place in numbers)
    return (is_word or is_padded) and all(map(_runs, numbers))


def _runs(texts: tuple[str, ...]) -> bool:
    found = {int(text) for text in texts}
    return len(found) >= RUNNING * (max(found) - min(found) + 1)
