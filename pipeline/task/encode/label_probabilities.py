"""The label probabilities in assignments."""

import numpy as np
import orjson
from resonance.engine.base import LabelAnswers


def label_texts(answers: LabelAnswers) -> list[bytes]:
    """Return for each record the JSON member with its probabilities; empty where no label was known."""
    names = [orjson.dumps(str(label)) + b":" for label in answers.labels]
    texts = []
    for row in np.ascontiguousarray(answers.probabilities):
        numbers = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        known = b",".join([name + number for name, number in zip(names, numbers, strict=False) if number != b"null"])
        texts.append(b'"labels":{%b},' % known if known else b"")
    return texts
