"""What the records contain that two deployments disagree about most."""

from collections.abc import Sequence
from typing import Any

from resonance.pipeline.inspect.originals import content_of, read_original
from resonance.pipeline.shadow.deployments import FoundDeployment


def add_contents(one: FoundDeployment, disagreeing: Sequence[dict[str, Any]]) -> None:
    """Add key and value to each record of a list, or why they are missing; `one` reads the same input."""
    with one.source.reader() as reader:
        for each in disagreeing:
            each.update(content_of(*read_original(reader, each), one.settings))
