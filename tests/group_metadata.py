"""Memberships as librdkafka writes them, made by hand."""

import struct


def group_metadata(group: str, generation: int, member: str, instance: str = "") -> bytes:
    """Return the metadata of a member, of a static one where it has an instance id."""
    end = b"\0" + instance.encode() + b"\0" if instance else b"\1"
    return b"".join((b"CGMDv2:", struct.pack("<i", generation), group.encode(), b"\0", member.encode(), b"\0", end))
