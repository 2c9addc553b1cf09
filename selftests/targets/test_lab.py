"""The lab: its wall, its link and what is left of it, on real namespaces."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from selftests.ordinary_user import run_as_ordinary_user
from weighbridge.errors import CommandError, StandError
from weighbridge.shell import Deadline
from weighbridge.targets import Request, lab
from weighbridge.targets.lab import link
from weighbridge.wire import MTU, ON_THE_WIRE

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab for the tests that leave nothing behind in it."""
    with lab.open_site(Request("selftest", ROOT / "scenarios")) as opened:
        yield opened


def interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names, not paths


def processes_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found.append(command)
    return found


def test_nodes_reach_each_other_and_nothing_else(site: lab.Lab) -> None:
    """A load loop in the lab can never reach an address outside it."""
    near, far = site.nodes

    assert near.shell.run(["ping", "-c", "1", "-W", "1", far.address]).ok
    assert near.shell.run(["ip", "route", "show", "default"]).stdout == ""
    routes = near.shell.run(["ip", "-4", "route"]).stdout.split("\n")
    assert all(route.startswith(("198.18.", "198.19.", "169.254.")) for route in routes if route)


def test_lab_adds_no_interface_to_the_machine() -> None:
    """Both ends of every veth pair are made inside, so nothing can be stranded outside."""
    before = interfaces()

    with lab.open_site(Request("selftest2", ROOT)) as opened:
        opened.pod(opened.nodes[0], "flannel")
        assert interfaces() == before
    assert interfaces() == before


@pytest.mark.parametrize("line_rate", [100e6, 1e9])
def test_full_frames_leave_the_bucket_at_line_rate(line_rate: float) -> None:
    """The shaped link counts preamble, FCS and gap, which the token bucket does not see."""
    frames_per_second = link.bucket_rate(line_rate) / 8 / (MTU + link.HEADER)

    assert frames_per_second * (MTU + ON_THE_WIRE) * 8 == pytest.approx(line_rate)


def test_command_past_its_deadline_dies_with_its_children(site: lab.Lab) -> None:
    """A hung tool costs its deadline and leaves no process in the lab."""
    marker = "7391.25"

    with pytest.raises(CommandError, match="passed its deadline"):
        site.nodes[0].shell.run(["sleep", marker], timeout=0.3)

    Deadline(2).until(lambda: not processes_with(f"sleep {marker}"), "the command to die")


def test_second_lab_is_another_world(site: lab.Lab) -> None:
    """Two runs on one machine use the same addresses without meeting."""
    with lab.open_site(Request("selftest3", ROOT)) as other:
        server = other.nodes[1].shell.start(["iperf3", "-s", "-p", "5999"])
        Deadline(5).until(
            lambda: bool(other.nodes[1].shell.run(["ss", "-Hltn", "sport = :5999"]).stdout), "iperf3 to listen"
        )

        assert site.nodes[1].shell.run(["ss", "-Hltn", "sport = :5999"]).stdout == ""
        server.stop()


def test_failure_to_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot make a lab says why, in one line."""
    monkeypatch.setattr("weighbridge.targets.lab.namespace._unshare", lambda: ["false"])

    with pytest.raises(StandError) as caught, lab.open_site(Request("selftest4", ROOT)):
        pass
    assert re.fullmatch(r"the lab did not start: .+", str(caught.value))


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("network", ["host", "flannel"])
def test_killing_the_suite_leaves_nothing(signal_number: signal.Signals, network: str) -> None:
    """No process, interface or mount outlives the process that opened the lab, however it ends."""
    before = interfaces()
    mounts = Path("/proc/mounts").read_text()
    program = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from weighbridge.targets import Request, lab
        with lab.open_site(Request("killed", Path("."))) as site:
            pod = site.pod(site.nodes[1], "{network}")
            server = pod.shell.start(["iperf3", "-s", "-p", "5998"])
            print("up", flush=True)
            time.sleep(60)
    """)
    popen = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"up\n"
    Deadline(5).until(lambda: bool(processes_with("iperf3 -s -p 5998")), "the server to be executed")

    popen.send_signal(signal_number)
    popen.wait()
    popen.stdout.close()

    Deadline(2).until(lambda: not processes_with("iperf3 -s -p 5998"), "the server to die")
    Deadline(2).until(lambda: not processes_with("/run/weighbridge/killed"), "process 1 of the lab to die")
    assert interfaces() == before
    assert Path("/proc/mounts").read_text() == mounts


def test_an_ordinary_user_gets_a_lab_too() -> None:
    """The lab needs no privilege: in a user namespace it stands up nginx behind VXLAN and ab gets its answers."""
    program = textwrap.dedent(f"""
        from pathlib import Path
        from weighbridge.scenario import load
        from weighbridge.stand import stand_up
        from weighbridge.targets import Request, lab
        assert lab.unavailable() is None, lab.unavailable()
        cells = load(Path("{ROOT}/scenarios/network_http.toml"), "smoke").cells
        cell = next(c for c in cells if c.axes["network"] == "flannel")
        with lab.open_site(Request("rootless", Path("."))) as site:
            stand = stand_up(site, cell)
            print(stand.read(cell, cell.load, 0).problem, stand.unproven())
            stand.close()
    """)
    done = run_as_ordinary_user(program)

    assert done.stdout.strip() == "None None", done.stderr
