"""Owns what tells two builds of a library apart: the bytes that a process of it holds."""
from __future__ import annotations

import hashlib
import pathlib
import struct

LOADED = 1  # PT_LOAD


def code_hash(file: str | pathlib.Path) -> str:
    """Returns the SHA-256 of an ELF library's loaded segments. Symbols that the loader leaves in the file count for nothing."""
    digest = hashlib.sha256()
    with open(file, "rb") as source:
        header = source.read(64)
        if header[:5] != b"\x7fELF\x02":
            raise OSError(f"{file} is no library of 64 bits")
        table, = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        source.seek(table)
        entries = [struct.unpack_from("<IIQQQQ", source.read(size)) for _ in range(count)]
        for kind, _, offset, _, _, num_bytes in entries:
            if kind != LOADED:
                continue
            source.seek(offset)
            while num_bytes > 0:
                part = source.read(min(num_bytes, 1 << 22))
                if not part:
                    raise OSError(f"{file} ends early")
                digest.update(part)
                num_bytes -= len(part)
    return digest.hexdigest()
