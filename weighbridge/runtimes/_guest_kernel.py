"""The kernel that a micro-VM boots: one fetched into the user's cache, else the machine's own.

A kernel package is never installed for it, since that would change what the machine boots. `fetch` takes
Debian's cloud kernel apart without root into `~/.cache/weighbridge/guest-kernel/<release>/`.
"""

from __future__ import annotations

import gzip
import lzma
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weighbridge.errors import CommandError, MissingToolError, StandError
from weighbridge.shell import LocalShell

_META_PACKAGE = "linux-image-cloud-amd64"
"""A package without content that depends on the newest kernel for virtual machines."""
WANTED = ("virtio_pci", "virtio_net")
"""The modules a guest needs; what they depend on is read from them."""
_FETCH_TIMEOUT = 300.0
_BUILT_IN = "modules.builtin"
_DEPENDS = re.compile(rb"\0depends=([\w,-]*)\0")


@dataclass(frozen=True, slots=True)
class GuestKernel:
    """A bootable image, its release, and the modules to load, in that order, that it has not built in."""

    image: Path
    release: str
    modules: Mapping[str, bytes]


def find() -> GuestKernel | None:
    """The newest kernel in the cache, else the one this machine runs; None when neither can be used."""
    cached = [path for path in cache().glob("*/vmlinuz") if not path.parent.name.startswith(".")]
    for image in sorted(cached, key=lambda path: _version(path.parent.name), reverse=True):
        if kernel := _readable(image, image.parent):
            return kernel
    running = platform.release()
    return _readable(Path(f"/boot/vmlinuz-{running}"), Path(f"/lib/modules/{running}"))


def cache() -> Path:
    """Where fetched kernels lie, one folder each."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weighbridge/guest-kernel"


def fetch() -> str | None:
    """Bring a kernel into the cache; says which, None when one is there already.

    apt verifies the package against the signed index of the distribution. Raises MissingToolError naming
    what it needs, StandError when the package holds no kernel that a guest can use.
    """
    if find():
        return None
    shell = LocalShell()
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shell.which(program) is None:
            raise MissingToolError(f"a guest kernel is brought by {program}, which is not installed here")
    depends = shell.run(["apt-cache", "depends", _META_PACKAGE], check=False, timeout=60.0).stdout
    named = re.search(r"Depends: (linux-image-(\S+))", depends)
    if named is None:
        raise MissingToolError(f"apt knows no package {_META_PACKAGE}; run: apt-get update")
    package, release = named[1], named[2]
    target = cache() / release
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as folder:
        try:
            download = ["env", f"--chdir={folder}", "apt-get", "--quiet", "download", package]
            shell.run(download, timeout=_FETCH_TIMEOUT)
            archive = next(Path(folder).glob("*.deb"))
            shell.run(["dpkg-deb", "--extract", str(archive), f"{folder}/content"], timeout=_FETCH_TIMEOUT)
        except (CommandError, StopIteration) as error:
            raise MissingToolError(f"{package} cannot be downloaded: {error}; try: apt-get update") from error
        _keep(Path(folder), release, target)
    return f"guest kernel {release}"


def _keep(folder: Path, release: str, target: Path) -> None:
    """Put what a guest needs of an unpacked package into the cache, whole or not at all."""
    content = folder / "content"
    kernel = _readable(content / f"boot/vmlinuz-{release}", content / f"lib/modules/{release}")
    if kernel is None:
        raise StandError(f"the package of {release} holds no kernel with {' and '.join(WANTED)}")
    kept = folder / "kept"
    kept.mkdir()
    shutil.copyfile(kernel.image, kept / "vmlinuz")
    for name, image in kernel.modules.items():
        (kept / f"{name}.ko").write_bytes(image)
    built_in = content / f"lib/modules/{release}/{_BUILT_IN}"
    shutil.copyfile(built_in, kept / _BUILT_IN)
    if target.exists():
        shutil.rmtree(target)
    kept.rename(target)


def _readable(image: Path, modules: Path) -> GuestKernel | None:
    """The kernel in that file with the modules below that folder; None when it cannot serve a guest."""
    try:
        release = release_of(image.read_bytes())
        found = _in_order(modules)
    except OSError:
        return None
    return None if release is None or found is None else GuestKernel(image, release, found)


def release_of(image: bytes) -> str | None:
    """The release that a bootable x86 image names; None when it is no such image.

    `HdrS` stands at 0x202, at 0x20e the place of the release less 0x200 (Documentation/arch/x86/boot.rst).
    """
    if image[0x202:0x206] != b"HdrS":
        return None
    start = int.from_bytes(image[0x20E:0x210], "little") + 0x200
    words = image[start : start + 256].partition(b"\0")[0].decode(errors="replace").split()
    return words[0] if words else None


def _in_order(folder: Path) -> dict[str, bytes] | None:
    """The modules wanted and what they depend on, depended-on first; None when one is not there."""
    listed = (folder / _BUILT_IN).read_text().split()
    built_in = {_module_name(Path(path)) for path in listed}
    paths = {_module_name(path): path for path in folder.rglob("*.ko*")}
    found: dict[str, bytes] = {}

    def load(name: str) -> bool:
        if name in found or name in built_in:
            return True
        image = _module(paths[name]) if name in paths else None
        depends = _DEPENDS.search(image) if image else None
        if image is None or depends is None:
            return False
        needed = depends[1].decode().replace("-", "_")
        if not all(load(other) for other in needed.split(",") if other):
            return False
        found[name] = image
        return True

    return found if all(load(name) for name in WANTED) else None


def _module_name(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", "_")


def _module(path: Path) -> bytes | None:
    """A module's image; None in a compression that Python's own library does not know."""
    image = path.read_bytes()
    try:
        match path.suffix:
            case ".ko":
                return image
            case ".gz":
                return gzip.decompress(image)
            case ".xz":
                return lzma.decompress(image)
    except (OSError, lzma.LZMAError):
        pass
    return None


def _version(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]
