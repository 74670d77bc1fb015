"""Owns what tells two builds of a library apart: the bytes that a process of it holds."""
from __future__ import annotations

import hashlib
import os
import pathlib
import struct
from typing import BinaryIO

LOADED = 1  # PT_LOAD


def loaded_segments(source: BinaryIO) -> list[tuple[int, int]]:
    """Returns the offset and the size of each segment that the loader maps."""
    header = source.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        raise OSError(f"{source.name} is no library of 64 bits")
    table, = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    source.seek(table)
    entries = source.read(size * count)
    if len(entries) < size * count:
        raise OSError(f"{source.name} ends early")
    found = [struct.unpack_from("<IIQQQQ", entries, size * i) for i in range(count)]
    return [(offset, num_bytes) for kind, _, offset, _, _, num_bytes in found if kind == LOADED]


def require_whole(file: str | pathlib.Path) -> None:
    """Raises OSError for a library of which the end is missing. The loader would map it, and the process die by SIGBUS."""
    with open(file, "rb") as source:
        end = max((offset + num_bytes for offset, num_bytes in loaded_segments(source)), default=0)
        size = os.fstat(source.fileno()).st_size
    if size < end:
        raise OSError(f"{size} of at least {end} bytes")


def code_hash(file: str | pathlib.Path) -> str:
    """Returns the SHA-256 of an ELF library's loaded segments. Symbols that the loader leaves in the file count for nothing."""
    digest = hashlib.sha256()
    with open(file, "rb") as source:
        for offset, num_bytes in loaded_segments(source):
            source.seek(offset)
            while num_bytes > 0:
                part = source.read(min(num_bytes, 1 << 22))
                if not part:
                    raise OSError(f"{file} ends early")
                digest.update(part)
                num_bytes -= len(part)
    return digest.hexdigest()
