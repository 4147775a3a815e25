"""What it costs to decode records: JSON objects with an array of numbers, and arrays of float32."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.float_records import as_float32
from resonance.pipeline.task.decode.mapping import make_mapping

from bench.report import Row, alternating, arguments, show

RECORDS = 4_000
CHUNK = 500


def decoding(values: Sequence[bytes], **given: object) -> Callable[[], float]:
    """Return what decodes all values in chunks and returns the microseconds of CPU time a record."""
    settings = Settings.of({"input.topics": ["features"], **{f"input.{name}": value for name, value in given.items()}})
    mapping = make_mapping(settings)
    log = [Record("features", 0, i, 1_700_000_000_000 + i, b"k%d" % i, value) for i, value in enumerate(values)]
    chunks = [log[start : start + CHUNK] for start in range(0, len(log), CHUNK)]

    def run() -> float:
        began = time.process_time()
        for chunk in chunks:
            mapping.decode(chunk)
        return (time.process_time() - began) / len(log) * 1e6

    return run


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What decoding a record costs in each format, for several numbers of features.")
    parser.add_argument("--features", type=int, nargs="*", default=[16, 384, 1_536], help="features of a record")
    parser.add_argument("--rounds", type=int, default=7, help="alternating runs that each median is taken of")
    given = parser.parse_args()
    rows = []
    for dimension in given.features:
        X = np.float32(np.random.default_rng(1).normal(size=(RECORDS, dimension)))
        objects = [orjson.dumps({"id": f"k{i}", "features": row}) for i, row in enumerate(X.tolist())]
        found = alternating(
            {
                "json": decoding(objects, dimension=dimension, id_path="id"),
                "float32": decoding(as_float32(X), dimension=dimension, format="float32"),
            },
            given.rounds,
        )
        rows.append(
            Row(f"decode float32, {dimension:,} features", "us/record", found["float32"], "JSON", found["json"])
        )
    show("Decoding of records", rows, given.json)


if __name__ == "__main__":
    main()
