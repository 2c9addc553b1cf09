"""Inside the micro-VM: what process 1 does, and what it tells on the console.

Process 1 is a script for busybox: it loads the modules, gives eth0 what the pod's had, tells the neighbours,
starts the server, and says when the server waits on a socket. A line for the suite begins with `@wb`; all
others are the server's own. When the server ends, the machine does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from weighbridge.errors import StandError
from weighbridge.runtimes import Command, waits_on
from weighbridge.runtimes import _initramfs as initramfs
from weighbridge.runtimes._guest_kernel import GuestKernel
from weighbridge.runtimes._initramfs import Entry
from weighbridge.runtimes._pod_interface import DEVICE, Interface
from weighbridge.shell import ENVIRONMENT, Shell

BUSYBOX = "busybox"
_APPLETS = ("sh", "mount", "chmod", "insmod", "ip", "arp", "env", "grep", "sleep", "reboot")
_MARK = "@wb "
_FACT = re.compile(rf"^{_MARK}(\w+) ?(.*?)\r?$", re.MULTILINE)
_FOLDERS = ("/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/var/tmp")  # noqa: S108 - paths of the guest
_ACCOUNTS = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
}
_TAKEN_IF_THERE = ("/etc/protocols", "/etc/services")

_BEGIN = """\
#!/bin/busybox sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
chmod 1777 /tmp /var/tmp
read -r release < /proc/sys/kernel/osrelease
read -r version < /proc/version
read -r boot < /proc/sys/kernel/random/boot_id
read -r _ memory _ < /proc/meminfo
echo "@wb release $release"
echo "@wb version $version"
echo "@wb boot $boot"
echo "@wb memory $memory"
"""

# arp_notify: the guest's kernel announces its address when the interface comes up. A neighbour that asked before
# the guest was there would otherwise learn it only when it asks again, up to a second later.
_BEFORE_NETWORK = """\
echo 1 > /proc/sys/net/ipv4/conf/default/arp_notify
ip link set lo up
"""

_SERVE = """\
read -r mtu < /sys/class/net/{device}/mtu
read -r mac < /sys/class/net/{device}/address
echo "@wb mtu $mtu"
echo "@wb mac $mac"
echo "@wb processors $(grep -c ^processor /proc/cpuinfo)"
ulimit -n 1048576
{server} < /dev/null &
server=$!
echo "@wb up"
found=
pause=0.01
tries=0
while [ -z "$found" ] && kill -0 $server 2> /dev/null; do
    for table in tcp tcp6 udp udp6; do
        [ -e /proc/net/$table ] || continue
        while read -r row address peer state rest; do
            case ${{table%6}}$state in tcp0A | udp07)
                echo "@wb listens ${{table%6}} $row $address $peer $state"
                found=yes
            esac
        done < /proc/net/$table
    done
    tries=$((tries + 1))
    [ $tries -lt 500 ] || pause=1
    [ -n "$found" ] || sleep $pause
done
wait $server
code=$?
[ $code -le 128 ] || echo "the server was killed by signal $((code - 128))"
echo "@wb ended $code"
echo 0 > /proc/sys/kernel/printk
reboot -f
"""


def static_busybox(shell: Shell) -> str | None:
    """Where a busybox without libraries is; None when there is none."""
    path = shell.which(BUSYBOX)
    return path if path and not initramfs.libraries(shell, path) else None


def base(busybox: str, init: str) -> dict[str, Entry]:
    """A root file system whose process 1 is the script `init`."""
    program = {"/bin/busybox": initramfs.taken([busybox])[busybox]}
    applets = {f"/bin/{name}": initramfs.link(BUSYBOX) for name in _APPLETS}
    console = {"/dev/console": initramfs.character_device(5, 1), "/dev/null": initramfs.character_device(1, 3)}
    folders = {path: initramfs.folder() for path in _FOLDERS}
    return {**folders, **program, **applets, **console, "/init": initramfs.file(init.encode(), executable=True)}


def root_file_system(
    shell: Shell, busybox: str, kernel: GuestKernel, interface: Interface, command: Command
) -> dict[str, Entry]:
    """Everything the guest needs to serve: the command's program, libraries and files besides the base.

    Raises StandError when the program is no ELF file, or something of it is not there.
    """
    program = command.argv[0]
    needed = initramfs.libraries(shell, program)
    # glibc opens its name services by name: no program says that it needs them.
    services = [str(path) for path in {Path(lib).with_name("libnss_files.so.2") for lib in needed} if path.exists()]
    extra = [path for path in _TAKEN_IF_THERE if Path(path).is_file()]
    entries = base(busybox, init_script(kernel, interface, command))
    entries |= {path: initramfs.file(text.encode()) for path, text in _ACCOUNTS.items()}
    entries |= initramfs.taken([program, *needed, *services, *extra])
    entries |= {f"/modules/{name}.ko": initramfs.file(image) for name, image in kernel.modules.items()}
    entries |= {path: initramfs.file(text.encode()) for path, text in command.files.items()}
    entries[command.workdir] = initramfs.folder()
    if not entries[program].data.startswith(b"\x7fELF"):
        raise StandError(f"{program} is no ELF program; a virtual machine takes along no interpreter for it")
    return entries


def init_script(kernel: GuestKernel, interface: Interface, command: Command) -> str:
    """What process 1 does."""
    environment = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    modules = "".join(f"insmod /modules/{name}.ko\n" for name in kernel.modules)
    network = "".join(f"{shlex.join(words)}\n" for words in interface.configuration)
    serve = _SERVE.format(device=DEVICE, server=shlex.join(["env", *environment, *command.argv]))
    return _BEGIN + _BEFORE_NETWORK + modules + network + serve


def facts(console: str) -> dict[str, str]:
    """What process 1 has told so far, the last word on each."""
    return {match[1]: match[2] for match in _FACT.finditer(console)}


def listens(console: str, transport: str, port: int) -> bool:
    """Whether the server has been seen to wait on a port."""
    rows = (match[2].split(" ", 1) for match in _FACT.finditer(console) if match[1] == "listens")
    return any(row[0] == transport and waits_on(row[1], port) for row in rows if len(row) == 2)


def server_said(console: str) -> str:
    """The console without the lines meant for the suite."""
    lines: Sequence[str] = console.replace("\r", "").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_MARK))


def evidence(console: str) -> Mapping[str, str]:
    """What the guest says of itself; the keys `kernel` and `boot id` are empty when it said nothing."""
    said = facts(console)
    return {
        "kernel": said.get("release", ""),
        "kernel version": said.get("version", ""),
        "boot id": said.get("boot", ""),
        "guest processors": said.get("processors", ""),
        "guest memory": f"{said['memory']} KiB" if "memory" in said else "",
        "guest mtu": said.get("mtu", ""),
        "guest mac": said.get("mac", ""),
    }
