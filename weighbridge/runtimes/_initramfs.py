"""An initramfs for a micro-VM: a cpio archive (newc) of given content, host files and a program's libraries.

The format is that of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst: per entry a
header of `070701` and thirteen fields of eight hexadecimal digits, the name with its NUL, the data, each
padded to four bytes. Every entry belongs to root and has no time, so equal content gives equal bytes.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from weighbridge.errors import StandError
from weighbridge.shell import Shell

_LOADER = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$")
_NOT_FOUND = re.compile(r"^\s*(\S+) => not found")


@dataclass(frozen=True, slots=True)
class Entry:
    """One inode: its mode with the type bits of stat(2), its data (a link's target, '' for a folder or device)."""

    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder() -> Entry:
    """A folder that everybody may enter."""
    return Entry(stat.S_IFDIR | 0o755)


def file(data: bytes, *, executable: bool = False) -> Entry:
    """A plain file."""
    return Entry(stat.S_IFREG | (0o755 if executable else 0o644), data)


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry(stat.S_IFLNK | 0o777, target.encode())


def character_device(major: int, minor: int) -> Entry:
    """A device node; the kernel opens /dev/console before anything could mount devtmpfs."""
    return Entry(stat.S_IFCHR | 0o600, device=(major, minor))


def archive(entries: Mapping[str, Entry]) -> bytes:
    """The entries, absolute path to inode, as a cpio archive; folders above them are added.

    >>> archive({"/etc/x": file(b"y")})[:6], len(archive({})) % 4
    (b'070701', 0)
    """
    whole = dict(entries)
    for path in entries:
        for above in PurePosixPath(path).parents:
            if str(above) != "/":
                whole.setdefault(str(above), folder())
    # A folder sorts before what lies in it, as the kernel needs it.
    parts = [_entry(number, path, whole[path]) for number, path in enumerate(sorted(whole), 1)]
    return b"".join([*parts, _entry(0, "TRAILER!!!", Entry(0))])


def _entry(number: int, path: str, entry: Entry) -> bytes:
    name = path.lstrip("/").encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def taken(paths: Iterable[str]) -> dict[str, Entry]:
    """Files of this machine at their own paths, content followed through links, kept executable.

    Raises StandError when one cannot be read.
    """
    found = {}
    for path in paths:
        try:
            source = Path(path)
            found[path] = file(source.read_bytes(), executable=bool(source.stat().st_mode & 0o111))
        except OSError as error:
            raise StandError(f"{path} cannot be taken into the virtual machine: {error.strerror}") from error
    return found


def libraries(shell: Shell, program: str) -> list[str]:
    """The shared libraries that a program needs, its loader included; none for a static one or a script.

    As ldd does, the system's own loader is asked to list them, so the program itself never runs.
    Raises StandError naming a library that is not there.
    """
    loader = _loader(Path(program))
    if loader is None:
        return []
    listing = shell.run([loader, "--list", program]).stdout
    if missing := next(filter(None, map(_NOT_FOUND.match, listing.splitlines())), None):
        raise StandError(f"{program} needs {missing[1]}, which is not there")
    found = {match[1] for line in listing.splitlines() if (match := _LOADER.match(line))}
    return sorted(found | {loader})


def _loader(program: Path) -> str | None:
    """The loader that an ELF program names (PT_INTERP, program header type 3 of a 64-bit little-endian file)."""
    try:
        image = program.read_bytes()
    except OSError as error:
        raise StandError(f"{program} cannot be read: {error.strerror}") from error
    if image[:6] != b"\x7fELF\x02\x01":
        return None
    offset = int.from_bytes(image[32:40], "little")
    size, count = (int.from_bytes(image[at : at + 2], "little") for at in (54, 56))
    for header in (image[offset + size * number :][:size] for number in range(count)):
        if int.from_bytes(header[:4], "little") == 3:
            start, length = (int.from_bytes(header[at : at + 8], "little") for at in (8, 32))
            return image[start : start + length].rstrip(b"\0").decode()
    return None
