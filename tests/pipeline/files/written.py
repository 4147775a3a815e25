"""Files that are written for a test, and the records that they become."""

import gzip

import orjson
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns


def written(folder, name, content):
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def records(path, **columns):
    with RecordFile(path, Columns(**columns)) as file:
        found = [record for batch in file.batches() for record in batch]
        assert file.position == file.total
        return found


def values(path, **how):
    return [orjson.loads(record.value) for record in records(path, **how)]
