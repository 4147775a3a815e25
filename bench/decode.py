"""What it costs to decode records: JSON objects with an array of numbers, arrays of float32, values with a schema."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import orjson
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.float_records import as_float32
from resonance.pipeline.task.decode.mapping import make_mapping

from bench.report import Row, alternating, arguments, show
from tests.pipeline.task.decode.test_avro_values import record
from tests.pipeline.task.decode.test_protobuf_values import field, file, message, message_class
from tests.schema_registry import Registry, running, serialized

RECORDS = 4_000
CHUNK = 500


def decoding(values: Sequence[bytes], **given: object) -> Callable[[], float]:
    """Return what decodes all values in chunks and returns the microseconds of CPU time a record.

    A name without a section is one of `input`.
    """
    named = {name if "." in name else f"input.{name}": value for name, value in given.items()}
    settings = Settings.of({"input.topics": ["features"], **named})
    mapping = make_mapping(settings)
    log = [Record("features", 0, i, 1_700_000_000_000 + i, b"k%d" % i, value) for i, value in enumerate(values)]
    chunks = [log[start : start + CHUNK] for start in range(0, len(log), CHUNK)]

    def run() -> float:
        began = time.process_time()
        for chunk in chunks:
            mapping.decode(chunk)
        return (time.process_time() - began) / len(log) * 1e6

    return run


def with_schemas(rows: list[list[float]], registry: Registry) -> dict[str, Callable[[], float]]:
    """Return the same records with a schema: an id and an array, or an id and as many members as features."""
    names = [f"f{place}" for place in range(len(rows[0]))]
    array, members = [], []
    for number, row in enumerate(rows):
        array.append({"id": f"k{number}", "features": row})
        members.append({"id": f"k{number}", **dict(zip(names, row, strict=True))})
    of_array = record(("id", "string"), ("features", {"type": "array", "items": "float"}), name="Listed")
    of_members = record(("id", "string"), *((name, "float") for name in names), name="Named")
    fields = [field("id", 1, "STRING"), field("features", 2, "FLOAT", "REPEATED")]
    described = file(message("Listed", *fields), message("Named", fields[0], *_floats(names)))
    proto = registry.add(serialized(described), "PROTOBUF").to_bytes(4, "big")
    valid = {"type": "object", "properties": {"features": {"type": "array", "items": {"type": "number"}}}}
    checked = registry.add(valid, "JSON").to_bytes(4, "big")
    listed, named = message_class(described, "shop.Listed"), message_class(described, "shop.Named")
    own = {"id_path": "id", "schema_registry.url": registry.url}
    whole, each = {"dimension": len(names), **own}, {"features": names, **own}
    protos = [b"\0" + proto + b"\0" + listed(**value).SerializeToString() for value in array]
    named_protos = [b"\0" + proto + b"\2\2" + named(**value).SerializeToString() for value in members]
    return {
        "avro, array": decoding(registry.avro(of_array, *array), format="avro", **whole),
        "avro, members": decoding(registry.avro(of_members, *members, topic="named"), format="avro", **each),
        "protobuf, array": decoding(protos, format="protobuf", **whole),
        "protobuf, members": decoding(named_protos, format="protobuf", **each),
        "json_schema": decoding(
            [b"\0" + checked + orjson.dumps(value) for value in array], format="json_schema", **whole
        ),
        "json, members": decoding([orjson.dumps(value) for value in members], features=names, id_path="id"),
    }


def _floats(names: Sequence[str]) -> list[FieldDescriptorProto]:
    return [field(name, number, "FLOAT") for number, name in enumerate(names, 2)]


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What decoding a record costs in each format, for several numbers of features.")
    parser.add_argument("--features", type=int, nargs="*", default=[16, 384, 1_536], help="features of a record")
    parser.add_argument("--rounds", type=int, default=7, help="alternating runs that each median is taken of")
    given = parser.parse_args()
    rows = []
    with running() as registry:
        for dimension in given.features:
            X = np.float32(np.random.default_rng(1).normal(size=(RECORDS, dimension)))
            objects = [orjson.dumps({"id": f"k{i}", "features": row}) for i, row in enumerate(X.tolist())]
            found = alternating(
                {
                    "json": decoding(objects, dimension=dimension, id_path="id"),
                    "float32": decoding(as_float32(X), dimension=dimension, format="float32"),
                    **with_schemas(X.tolist(), registry),
                },
                given.rounds,
            )
            in_json = found.pop("json")
            for name, cost in found.items():
                rows.append(Row(f"decode {name}, {dimension:,} features", "us/record", cost, "JSON", in_json))
    show("Decoding of records", rows, given.json)


if __name__ == "__main__":
    main()
