"""The parts of kata's micro-VM on their own: archive, libraries, guest kernel, console, interface."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from weighbridge import cgroups
from weighbridge.errors import MissingToolError, StandError
from weighbridge.model import Limits
from weighbridge.runtimes import Command, _guest, _guest_kernel, _initramfs, _pod_interface, _qemu, _vm_limits, kata
from weighbridge.runtimes._guest_kernel import GuestKernel
from weighbridge.shell import ENVIRONMENT, Finished, LocalShell, Process


def test_archive_is_unpacked_by_cpio_as_it_was_packed(tmp_path: Path) -> None:
    """Another program's reader agrees with the writer: names, modes, contents, links, folders added."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed; install it with: apt-get install busybox-static")
    entries = {
        "/init": _initramfs.file(b"#!/bin/sh\n", executable=True),
        "/etc/deep/er/odd": _initramfs.file(b"12345"),
        "/bin/sh": _initramfs.link("busybox"),
        "/empty": _initramfs.folder(),
    }

    subprocess.run([busybox, "cpio", "-i"], input=_initramfs.archive(entries), cwd=tmp_path, check=True)

    assert (tmp_path / "init").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((tmp_path / "init").stat().st_mode) == 0o755
    assert (tmp_path / "etc/deep/er/odd").read_bytes() == b"12345"
    assert (tmp_path / "bin/sh").readlink() == Path("busybox")
    assert list((tmp_path / "empty").iterdir()) == []


def test_equal_content_gives_equal_bytes() -> None:
    """Neither time nor the order in which entries were named shows in an archive."""
    one, two = _initramfs.file(b"1"), _initramfs.file(b"2")

    assert _initramfs.archive({"/a": one, "/b": two}) == _initramfs.archive({"/b": two, "/a": one})


def test_libraries_are_those_that_the_system_loader_finds() -> None:
    """Every library of a dynamic program is taken along, its loader too, and the program is not run for it."""
    program = str(Path("/usr/bin/env").resolve())
    found = _initramfs.libraries(LocalShell(), program)

    if not found:
        pytest.skip("the programs of this machine are static")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
    wanted = {word for word in listed.split() if word.startswith("/")}
    assert wanted <= set(found)
    assert all(Path(path).is_file() for path in found)


def test_script_has_no_libraries(tmp_path: Path) -> None:
    """What is no ELF file is not given to the loader."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")

    assert _initramfs.libraries(LocalShell(), str(script)) == []


def test_missing_file_is_named() -> None:
    """A server that is not there is an error before the guest boots."""
    with pytest.raises(StandError, match="/no/such"):
        _initramfs.libraries(LocalShell(), "/no/such")
    with pytest.raises(StandError, match="/no/such"):
        _initramfs.taken(["/no/such"])


def module_image(depends: str) -> bytes:
    return b"\x7fELF..\0license=GPL\0depends=" + depends.encode() + b"\0name=x\0"


def kernel_image(release: str) -> bytes:
    head = bytearray(0x300)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x40).to_bytes(2, "little")
    return bytes(head[:0x240]) + f"{release} (debian) #1\0".encode() + bytes(64)


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with one kernel whose virtio_net needs another module, and virtio_pci is built in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = _guest_kernel.cache() / "6.1.0-9-cloud"
    folder.mkdir(parents=True)
    (folder / "vmlinuz").write_bytes(kernel_image("6.1.0-9-cloud"))
    (folder / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/virtio/virtio.ko\n")
    (folder / "virtio_net.ko.xz").write_bytes(lzma.compress(module_image("net-failover,virtio")))
    (folder / "net_failover.ko").write_bytes(module_image("failover"))
    (folder / "failover.ko").write_bytes(module_image(""))
    return folder


def test_modules_are_loaded_after_those_they_need(cached: Path) -> None:
    """The order comes from the modules themselves; what is built in is left out, compressed ones are read."""
    kernel = _guest_kernel.find()

    assert kernel is not None
    assert kernel.release == "6.1.0-9-cloud"
    assert list(kernel.modules) == ["failover", "net_failover", "virtio_net"]


def test_newest_kernel_is_taken(cached: Path) -> None:
    """Releases are compared by their numbers, not as text."""
    newer = cached.with_name("6.1.0-10-cloud")
    shutil.copytree(cached, newer)
    (newer / "vmlinuz").write_bytes(kernel_image("6.1.0-10-cloud"))

    kernel = _guest_kernel.find()

    assert kernel is not None
    assert kernel.release == "6.1.0-10-cloud"


@pytest.mark.parametrize("broken", ["failover.ko", "modules.builtin", "vmlinuz"])
def test_incomplete_kernel_is_no_kernel(cached: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module, the list or the image missing: not half a guest, none."""
    monkeypatch.setattr("platform.release", lambda: "no-such-release")
    (cached / broken).unlink()

    assert _guest_kernel.find() is None


def test_file_that_is_no_kernel_has_no_release() -> None:
    """Only a bootable image names a release."""
    assert _guest_kernel.release_of(b"x" * 1000) is None
    assert _guest_kernel.release_of(b"") is None


def test_nothing_is_fetched_where_a_kernel_is(cached: Path) -> None:
    """A second fetch changes nothing and says so."""
    assert _guest_kernel.fetch() is None


def test_fetch_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no apt the reason names it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("platform.release", lambda: "no-such-release")
    monkeypatch.setattr(LocalShell, "which", lambda self, program: None)

    with pytest.raises(MissingToolError, match="apt-get"):
        _guest_kernel.fetch()


PAGE = os.sysconf("SC_PAGE_SIZE")
CONSOLE = (
    "@wb release 6.1.0-9-cloud\r\n@wb boot abc\r\nready\r\n@wb up\r\n"
    "@wb listens tcp 0: 00000000:1F90 00000000:0000 0A\r\n@wb listens udp 12: 00000000:1389 00000000:0000 07\r\n"
    "last words\r\n"
)


def test_console_is_read_by_line() -> None:
    """The suite's lines are facts, the others are the server's own."""
    assert _guest.facts(CONSOLE)["release"] == "6.1.0-9-cloud"
    assert _guest.evidence(CONSOLE)["boot id"] == "abc"
    assert _guest.evidence("")["kernel"] == ""
    assert _guest.server_said(CONSOLE) == "ready\nlast words\n"


@pytest.mark.parametrize(
    ("transport", "port", "waits"),
    [("tcp", 8080, True), ("udp", 8080, False), ("udp", 5001, True), ("tcp", 5001, False), ("tcp", 80, False)],
)
def test_guest_tells_which_socket_waits(transport: str, port: int, waits: bool) -> None:
    """Port and transport both have to fit."""
    assert _guest.listens(CONSOLE, transport, port) is waits


def test_words_of_the_server_stay_words_in_the_guest() -> None:
    """An argument with blanks, quotes or a dollar sign reaches the server as it is."""
    interface = _pod_interface.Interface("02:00:00:00:00:01", 1500, ())
    command = Command(("/bin/x", "a b", "$HOME", "it's"), "/run/x")

    script = _guest.init_script(GuestKernel(Path("/x"), "1", {}), interface, command)

    line = next(line for line in script.splitlines() if "/bin/x" in line)
    shown = subprocess.run(
        ["sh", "-c", line.replace("env ", "printf '%s|' ", 1).removesuffix(" < /dev/null &")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.endswith("/bin/x|a b|$HOME|it's|")


@dataclass
class Told:
    """A shell whose `ip` answers what it was told to."""

    answers: Sequence[object]
    asked: list[Sequence[str]] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, check: bool = True, given: str = "") -> Finished:
        answer = self.answers[len(self.asked)]
        self.asked.append(argv)
        return Finished(tuple(argv), 0 if answer is not None else 1, json.dumps(answer) if answer else "", "", 0.0)

    def start(self, argv: Sequence[str]) -> Process:
        raise NotImplementedError

    def which(self, program: str) -> str | None:
        return None


def test_guest_takes_over_address_routes_and_neighbours() -> None:
    """A link-scope route comes before the one that needs it, the kernel's own are left to the guest's kernel."""
    shell = Told(
        [
            [{"addr_info": [{"local": "198.18.101.1", "prefixlen": 32}]}],
            [{"address": "02:00:00:00:00:01", "mtu": 1450}],
            [
                {"dst": "default", "gateway": "169.254.1.1", "flags": ["onlink"]},
                {"dst": "169.254.1.1", "scope": "link", "flags": []},
                {"dst": "198.18.101.0/24", "protocol": "kernel", "scope": "link"},
            ],
            [
                {"dst": "169.254.1.1", "lladdr": "02:00:00:00:00:02", "state": ["PERMANENT"]},
                {"dst": "198.18.101.9", "lladdr": "02:00:00:00:00:03", "state": ["REACHABLE"]},
            ],
        ]
    )

    interface = _pod_interface.read(shell)

    assert (interface.mac, interface.mtu) == ("02:00:00:00:00:01", 1450)
    assert [" ".join(words) for words in interface.configuration] == [
        "ip link set eth0 mtu 1450",
        "ip address add 198.18.101.1/32 dev eth0",
        "ip link set eth0 up",
        "ip route add 169.254.1.1 dev eth0 scope link",
        "ip route add default via 169.254.1.1 dev eth0 onlink",
        "arp -i eth0 -s 169.254.1.1 02:00:00:00:00:02",
    ]


def test_pod_without_interface_is_refused() -> None:
    """There is nothing to take over."""
    with pytest.raises(StandError, match="no eth0"):
        _pod_interface.read(Told([None]))


@dataclass
class Booting:
    """A shell in which a machine says something and ends."""

    said: str
    runs: int = 0

    def run(self, argv: Sequence[str], *, timeout: float = 10.0, check: bool = True, given: str = "") -> Finished:
        self.runs += 1
        return Finished(tuple(argv), 0, self.said, "", 0.0)

    def start(self, argv: Sequence[str]) -> Process:
        raise NotImplementedError

    def which(self, program: str) -> str | None:
        return None


@pytest.mark.parametrize(
    ("said", "acceleration"),
    [("Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n", "kvm"), ("", "tcg")],
)
def test_only_a_kernel_that_boots_proves_kvm(said: str, acceleration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that may be opened is not enough; the answer is remembered."""
    monkeypatch.setattr(_qemu, "_found", {})
    shell, kernel = Booting(said), GuestKernel(Path("/x"), "1", {})

    assert _qemu.acceleration(shell, kernel) == acceleration
    runs = shell.runs
    assert _qemu.acceleration(shell, kernel) == acceleration
    assert shell.runs == runs


def test_emulated_processor_is_a_caveat_and_kvm_none() -> None:
    """No verdict rests on emulation."""
    assert kata.caveat({"acceleration": "tcg"}) == "emulated CPU"
    assert kata.caveat({"acceleration": "kvm"}) is None


def test_guest_of_whole_mebibytes_is_what_a_limit_outside_is_proven_by() -> None:
    """Half a decimal gigabyte for the guest alone is 476 MiB: that, and no other figure, has to be in force."""
    limits = Limits(cpu=0.29, memory=500e6, sandbox_overhead="outside")
    size = _vm_limits.guest_memory(limits)

    evidence = {"limits": _vm_limits.in_force(None, Limits(memory=500e6), 1, size), "cgroup": "/x"}
    assert evidence["limits"] == f"memory {476 * 2**20}"
    assert kata._unlimited(evidence, limits, _vm_limits.held(replace(limits, cpu=None))) is None
    assert _vm_limits.held(replace(limits, sandbox_overhead="inside")).memory == float(500_000_000 // PAGE * PAGE)


@pytest.mark.parametrize("limits", [Limits(), Limits(cpu=1.0), Limits(memory=2.0**29), Limits(request_cpu=0.5)])
def test_overhead_is_never_outside_in_version_2(monkeypatch: pytest.MonkeyPatch, limits: Limits) -> None:
    """Version 2 cannot part the threads of one QEMU, so its overhead would count: refused whatever is limited."""
    monkeypatch.setattr(cgroups, "unavailable", lambda: None)
    outside = replace(limits, sandbox_overhead="outside")
    monkeypatch.setattr(cgroups, "version", lambda: 2)
    assert "needs cgroup version 1" in str(_vm_limits.refuses(outside))
    assert _vm_limits.refuses(limits) is None
    monkeypatch.setattr(cgroups, "version", lambda: 1)
    assert _vm_limits.refuses(outside) is None
