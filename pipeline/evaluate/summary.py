"""The result of an evaluation as one JSON document, from which tables and the report are made."""

import math
from importlib.metadata import version
from typing import Any, Final

from resonance.pipeline.errors import ConfigurationError, counted, nearest
from resonance.pipeline.evaluate.dataset import class_counts
from resonance.pipeline.evaluate.evaluation import ONE, Evaluation, Measured
from resonance.pipeline.evaluate.figures import NAMES

MOST_CLASSES: Final = 50
"""Most classes that the document lists."""

FEWEST_LAST: Final = 100
"""Records of the last window from which on its figure is worth a sentence."""


def document(found: Evaluation, source: str, command: str) -> dict[str, Any]:
    """Return everything that was measured; `source` names the records, `command` measures them again."""
    data = found.data
    best, *others = found.ranked
    return {
        "source": source,
        "command": command,
        "resonance": version("resonance-streams"),
        "records": len(data),
        "features": list(data.features),
        "classes": dict(list(class_counts(data).items())[:MOST_CLASSES]),
        "windows": found.yardstick.bounds.tolist(),
        "best": {
            "candidate": best.name,
            "by": found.criterion,
            "value": best.whole.get(found.criterion),
            "next": others[0].name if others else None,
            "next_value": others[0].whole.get(found.criterion) if others else None,
        },
        "incidents": best.run.incidents,
        "candidates": [_measured(one) for one in found.candidates],
        "baselines": [_measured(one) for one in found.baselines],
        "notes": found.notes,
    }


def _measured(one: Measured) -> dict[str, Any]:
    run = one.run
    content: dict[str, Any] = {"name": one.name, "figures": one.whole, "windows": one.windows}
    if one.whole.get("bytes") is None:
        return content
    content |= {
        "settings": dict(one.settings),
        "streams": len(run.streams),
        "dead_letters": dict(run.dead_letters),
    }
    if one.shuffled:
        content["shuffled"] = one.shuffled
    return content


def best_sentence(document: dict[str, Any]) -> str:
    """Return which candidate was best, by which figure, how close the next one was, and k-means, and how it ended."""
    sentence, by = _best(document), document["best"]["by"]
    for name, value in ((one["name"], one["figures"].get(by)) for one in document["baselines"]):
        if name != ONE and value is not None:
            all_of = counted(document["records"], "record")
            sentence += f"; {name}, fitted on the first half, has {value:.3f}; all this is of all {all_of}"
    best = next(one for one in document["candidates"] if one["name"] == document["best"]["candidate"])
    bounds, last = document["windows"], best["windows"][-1:]
    records = bounds[-1] - bounds[-2] if last else 0
    # Answers from before a cluster was known count for the whole, and where there are many clusters may be most of it.
    if records >= FEWEST_LAST and (value := last[0].get(by)) is not None:
        sentence += f"; of the last {records:,} alone {best['name']} has {value:.3f}"
    return sentence


def _best(document: dict[str, Any]) -> str:
    best, count = document["best"], len(document["candidates"])
    by = best["by"]
    if best["value"] is None:
        return f"no candidate has a {by}, by which they would be ranked"
    if best["next"] is None:
        return f"the only candidate, {best['candidate']}, has {by} {best['value']:.3f}"
    if best["next_value"] is None:
        return f"best of {count} by {by}: {best['candidate']} with {best['value']:.3f}; no other one has it"
    behind = abs(best["value"] - best["next_value"])
    close = "as good" if behind == 0 else f"{behind:.3f} behind"
    return (
        f"best of {count} by {by}: {best['candidate']} with {best['value']:.3f}; next is {best['next']} with "
        f"{best['next_value']:.3f}, {close}"
    )


def bounds_of(option: str, texts: list[str] | None) -> dict[str, float]:
    """Return the bound of each figure; `texts` are like ``ari=0.7``."""
    found = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        if name not in NAMES:
            raise ConfigurationError(
                f"{option} {text}: {name} is no figure{nearest(name, NAMES)}; there are {', '.join(NAMES)}"
            )
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not math.isfinite(found[name]):
            raise ConfigurationError(f"{option} {text}: write it as {name}=NUMBER, such as {name}=0.5")
    return found


def missed(document: dict[str, Any], under: dict[str, float], over: dict[str, float]) -> list[str]:
    """Return a sentence for each bound that the best candidate does not keep.

    Raises `ConfigurationError` for a figure that it does not have.
    """
    best = next(one for one in document["candidates"] if one["name"] == document["best"]["candidate"])
    found = []
    for option, bounds in (("--fail-under", under), ("--fail-over", over)):
        for name, bound in bounds.items():
            value = best["figures"].get(name)
            if value is None:
                known = ", ".join(each for each in NAMES if best["figures"].get(each) is not None)
                raise ConfigurationError(f"{option} {name}: {best['name']} has no such figure; it has {known}")
            if value < bound if option == "--fail-under" else value > bound:
                side = "under" if option == "--fail-under" else "over"
                found.append(f"{best['name']}: {name} {value:.4g} is {side} {bound:g}")
    return found
