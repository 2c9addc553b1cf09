"""gVisor's own claims: another kernel, a network stack of its own, and a runsc that is shown to work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from weighbridge import registry
from weighbridge.errors import MissingToolError
from weighbridge.model import Limits
from weighbridge.runtimes import Command, _runsc, gvisor
from weighbridge.runtimes._takeover import taken
from weighbridge.scenario import load
from weighbridge.shell import Finished, LocalShell
from weighbridge.stand import unavailable
from weighbridge.targets import Request, lab

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site() -> Iterator[lab.Lab]:
    """A lab, where one can be made."""
    if reason := lab.unavailable():
        pytest.skip(reason)
    with lab.open_site(Request("selftest-gvisor", ROOT / "scenarios")) as opened:
        yield opened


def test_kernel_inside_is_not_the_host_s(site: lab.Lab) -> None:
    """What tells gVisor from a container is proven: the kernel, the sentry, its platform."""
    if reason := gvisor.unavailable(site.shell()):
        pytest.skip(reason)
    pod = site.pod(site.nodes[1], "flannel")
    command = Command(("/usr/bin/sleep", "60"), "/run/weighbridge/selftest-gvisor/server")
    sandbox = gvisor.start(pod, command, Limits(), site.files, "selftest-gvisor")
    try:
        evidence = dict(sandbox.evidence())
    finally:
        sandbox.stop()

    assert evidence["kernel"] not in ("", evidence["kernel of the host"])
    assert evidence["version"].startswith("Linux version ")
    assert evidence["network stack"] == "netstack"
    assert gvisor.unproven(evidence, Limits()) is None
    same = evidence | {"kernel": evidence["kernel of the host"]}
    assert "no kernel of gVisor's" in str(gvisor.unproven(same, Limits()))
    assert "not in its cgroup" in str(gvisor.unproven(evidence | {"cgroup": ""}, Limits()))


@pytest.mark.parametrize("network", ["calico", "flannel"])
def test_pod_gets_its_interface_back(site: lab.Lab, network: str) -> None:
    """Address and routes of a pod are after a sandbox what they were before it."""
    if reason := gvisor.unavailable(site.shell()):
        pytest.skip(reason)
    pod = site.pod(site.nodes[1], network)
    workdir = "/run/weighbridge/selftest-gvisor/server"
    before = taken(pod, site.files, workdir)
    routes = pod.shell.run(["ip", "route"]).stdout
    sandbox = gvisor.start(pod, Command(("/usr/bin/sleep", "60"), workdir), Limits(), site.files, "selftest-gvisor")
    try:
        assert "inet " not in pod.shell.run(["ip", "address", "show", "dev", "eth0"]).stdout
    finally:
        sandbox.stop()

    assert taken(pod, site.files, workdir) == before
    assert pod.shell.run(["ip", "route"]).stdout == routes


def test_overhead_outside_the_limits_is_refused(site: lab.Lab) -> None:
    """A limit that gVisor cannot draw is a skip with its reason, before anything is stood up."""
    if reason := gvisor.unavailable(site.shell()):
        pytest.skip(reason)
    cell = load(ROOT / "scenarios/http_rate.toml", "smoke").cells[0]
    outside = Limits(cpu=1.0, sandbox_overhead="outside")

    def reason_for(runtime: str) -> str | None:
        return unavailable(site, replace(cell, axes={**cell.axes, "runtime": runtime}, limits=outside))

    assert "cannot keep its overhead outside" in str(reason_for("gvisor"))
    if registry.find("runtimes", "runc").unavailable(site.shell()) is None:
        assert reason_for("runc") is None


def test_newest_runsc_is_tried_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was fetched goes before an older package, and a platform that works before those after it."""
    old, new = "/usr/bin/runsc", str(tmp_path / "weighbridge/runsc-v0.0.0-20250205023644-9414b50a5633")
    Path(new).parent.mkdir()
    Path(new).touch(mode=0o755)
    versions = {old: "0.0~20221219.0", new: "v0.0.0-20250205023644-9414b50a5633"}
    works = {(new, "kvm"), (new, "ptrace"), (old, "ptrace")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(_runsc, "_known", {})
    monkeypatch.setattr(_runsc, "_version", lambda _, path: versions[path])
    monkeypatch.setattr(_runsc, "_refusal", lambda _, path, on: None if (path, on) in works else "no")
    monkeypatch.setattr(LocalShell, "which", lambda _, name: old)
    assert _runsc.find(LocalShell()) == _runsc.Runsc(new, versions[new], "kvm")

    works -= {(new, "kvm"), (new, "ptrace")}
    monkeypatch.setattr(_runsc, "_known", {})
    assert _runsc.find(LocalShell()) == _runsc.Runsc(old, versions[old], "ptrace")

    works.clear()
    monkeypatch.setattr(_runsc, "_known", {})
    said = _runsc.find(LocalShell())
    assert isinstance(said, str)
    assert "0.0~20221219.0 on ptrace: no" in said
    assert "\n" not in said


def test_without_any_runsc_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing installed and nothing fetched is a skip that says what brings it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(LocalShell, "which", lambda _, name: None)
    assert "not installed; install it with: apt-get install runsc" in str(_runsc.find(LocalShell()))


def test_build_needs_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fetching without Go names it; what is in the cache already is not built again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(MissingToolError, match="go is not installed"):
        gvisor.fetch()
    assert not list(tmp_path.iterdir())
    built = tmp_path / "weighbridge" / f"runsc-{_runsc.MODULE_VERSION}"
    built.parent.mkdir()
    built.touch()
    assert gvisor.fetch() is None


def test_toolchain_has_the_time_of_a_build_and_its_failure_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Go fetches its toolchain when it is asked for its version: no ten seconds for it, and its words are kept."""
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'go: download go1.23.12: no route to host' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name, path=None: str(go))
    given: list[float] = []
    real = LocalShell.run

    def run(self: LocalShell, argv: Sequence[str], *, timeout: float = 10.0, check: bool = True) -> Finished:
        given.append(timeout)
        return real(self, argv, timeout=timeout, check=check)

    monkeypatch.setattr(LocalShell, "run", run)
    with pytest.raises(MissingToolError, match=r"cannot fetch go1\.23\.12; .* ended with 1 .*no route to host"):
        gvisor.fetch()
    assert given == [_runsc.BUILD_TIMEOUT]
