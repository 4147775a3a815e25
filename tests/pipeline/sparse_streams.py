"""Sparse records of both forms, and settings under which they are learned."""

from functools import partial

import numpy as np
import orjson
from resonance.pipeline.records import Record

from tests.pipeline.streams import STAMP, TOPIC, plain_settings

sparse_settings = partial(plain_settings, input__sparse="words", engine__name="sa_art")
"""SA-ART on the path ``words``, with changes."""


def entries(count, seed=0, vocabulary=60):
    """Records of four topics with words of their own and a few of all, in no order; later words are new ones."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        topic, known = int(rng.integers(4)), 20 + (vocabulary - 20) * i // count
        own = np.flatnonzero(np.arange(known) % 4 == topic)
        words = rng.choice(own, min(len(own), int(rng.integers(2, 7))), replace=False).tolist()
        words += [int(word) for word in rng.integers(0, known, 2) if word not in words]
        words = list(dict.fromkeys(words))
        found.append([(word, round(float(rng.random()), 3)) for word in words])
    return found


def by_name(record):
    return {f"w{index:02}": value for index, value in record}


def by_index(record):
    return {"indices": [index for index, _ in record], "values": [value for _, value in record]}


def sparse_record(offset, words, key=None, **members):
    value = orjson.dumps({"id": f"r{offset}", "words": words, **members})
    return Record(TOPIC, 0, offset, STAMP + 13 * offset, key, value)


def sparse_records(words, keys=(None,)):
    return [sparse_record(i, each, keys[i % len(keys)]) for i, each in enumerate(words)]


def dense(record, vocabulary=60):
    """The same record with everything in it."""
    return {f"w{index:02}": 0.0 for index in range(vocabulary)} | dict(by_name(record))
