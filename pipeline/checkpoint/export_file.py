"""Export snapshots to a file, to keep and to import; its bytes are those of `codec`."""

from collections.abc import Sequence
from pathlib import Path

from resonance.pipeline.checkpoint.checkpoint import PartitionCheckpoint
from resonance.pipeline.checkpoint.codec import decode, encoded
from resonance.pipeline.errors import ConfigurationError, InputFileError


def write_file(path: Path, partitions: Sequence[PartitionCheckpoint]) -> int:
    """Write a file and return its size; an existing file is never overwritten.

    Raises ConfigurationError where the file exists, or cannot be written.
    """
    try:
        file = path.open("xb")
    except FileExistsError:
        raise ConfigurationError(f"{path}: there is such a file; name another one, or remove it first") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with file:
            file.writelines(encoded(partitions))
    except BaseException as error:
        # The next try would refuse to overwrite half a file.
        path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    return path.stat().st_size


def read_file(path: Path) -> list[PartitionCheckpoint]:
    """Return the partitions that a file holds.

    Raises InputFileError where it cannot be read, is no export, is cut off or damaged, or is of another release.
    """
    try:
        with path.open("rb") as file:
            found = decode(file)
            if file.read(1):
                raise InputFileError("has something behind its end")
    except OSError as error:
        raise InputFileError(f"{path} cannot be read: {error.strerror}") from error
    except InputFileError as error:
        raise InputFileError(f"{path} {error}; export it again, or use the release that wrote it") from None
    return found
