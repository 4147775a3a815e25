"""What can go wrong in an engine.

EngineError
├── ParameterError   a parameter outside its range, or one that does not exist
├── RecordError      a record the engine cannot learn: shape, dimension, not finite
└── StateError       bytes that are no state of this engine
"""


class EngineError(Exception):
    """Root of every error that an engine raises on purpose."""


class ParameterError(EngineError):
    """A parameter does not exist, or its value is outside its range.

    Parameters
    ----------
    name : str
        The parameter as the user writes it.
    value : object
        What was given.
    allowed : str
        What would be accepted, in words.
    """

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} = {value!r}: must be {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed


class RecordError(EngineError):
    """A record cannot be learned; the state is what it was before the batch.

    Parameters
    ----------
    index : int
        Position of the record in the batch.
    problem : str
        What is wrong with it.
    """

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(f"record {index} of the batch: {problem}")
        self.index = index
        self.problem = problem


class StateError(EngineError):
    """Bytes do not hold a state that this engine can continue from."""
