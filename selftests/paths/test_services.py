"""Services of the lab, by connecting through them and asking the server whom it saw."""

from __future__ import annotations

import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from selftests.ordinary_user import run_as_ordinary_user
from weighbridge import registry
from weighbridge.errors import CommandError, StandError
from weighbridge.hosts import Node, Pod
from weighbridge.paths import Service, Way, _services
from weighbridge.paths._services import cluster_cidr, find_iptables, free_address, on_node, translated
from weighbridge.scenario import load
from weighbridge.shell import Deadline, LocalShell
from weighbridge.stand import stand_up, unavailable
from weighbridge.targets import Request, lab

pytestmark = pytest.mark.skipif(lab.unavailable() is not None, reason=str(lab.unavailable()))

ROOT = Path(__file__).parents[2]
SERVER = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    while True:
        client, address = server.accept()
        client.sendall(f"{sys.argv[2]} saw {address[0]}".encode())
        client.close()
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as client:
    print(b"".join(iter(lambda: client.recv(100), b"")).decode())
"""
DATAGRAM_SERVER = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", int(sys.argv[1])))
while True:
    text, address = server.recvfrom(100)
    server.sendto(f"{sys.argv[2]} saw {address[0]}".encode(), address)
"""
DATAGRAM_CLIENT = """
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(5)
client.sendto(b"hello", (sys.argv[1], int(sys.argv[2])))
text, address = client.recvfrom(100)
print(text.decode(), "from", address[0])
"""


@pytest.fixture(scope="module")
def site() -> Iterator[lab.Lab]:
    """One lab for all: every test takes its services away again."""
    with lab.open_site(Request("selftest", ROOT)) as opened:
        if reason := registry.find("paths", "cluster-ip").unavailable(opened.shell(), True):
            pytest.skip(reason)
        yield opened


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    """Ends what a test has started, also when it fails."""
    with ExitStack() as stack:
        yield stack


def port_of(path: str) -> int:
    return 30000 if path == "node-port" else 8080


def opened(site: lab.Lab, undo: ExitStack, path: str, client: Pod, server: Pod) -> Way:
    service = Service(f"selftest/{server.name}", site.nodes, client, server, (port_of(path),))
    way: Way = registry.find("paths", path).open(service)
    undo.callback(way.close)
    return way


def served(undo: ExitStack, server: Pod, port: int, script: str = SERVER) -> None:
    process = server.shell.start([sys.executable, "-c", script, str(port), server.name])
    undo.callback(process.stop)
    kind = "-Hltn" if script is SERVER else "-Hlun"
    ready: Callable[[], bool] = lambda: bool(server.shell.run(["ss", kind, f"sport = :{port}"]).stdout)  # noqa: E731
    Deadline(5).until(ready, "the server to listen")


def asked(client: Pod, way: Way, port: int, script: str = CLIENT) -> str:
    return client.shell.run([sys.executable, "-c", script, way.host, str(port)]).stdout.strip()


def rules(nodes: Sequence[Node]) -> list[str]:
    """Every rule and every chain that somebody made."""
    found = [line for node in nodes for line in node.shell.run(["iptables-save"]).stdout.splitlines()]
    return [line for line in found if line.startswith("-A") or (line.startswith(":") and line.split()[1] == "-")]


@pytest.fixture(params=itertools.product(["same-node", "cross-node"], ["pod", "node"]), ids="-".join)
def ends(request: pytest.FixtureRequest, site: lab.Lab, network: str) -> tuple[Pod, Pod]:
    """A client, in a pod or in its node itself, and a server on the same node or on the other one."""
    placement, client_at = request.param
    near, far = site.nodes[0], site.nodes[1] if placement == "cross-node" else site.nodes[0]
    return site.pod(near, "host" if client_at == "node" else network), site.pod(far, network)


@pytest.fixture(params=[key for key in registry.keys("networks") if registry.find("networks", key).SERVICES])
def network(request: pytest.FixtureRequest, site: lab.Lab) -> str:
    """Every network that leads packets through their node's IP stack."""
    key: str = request.param
    if reason := registry.find("networks", key).unavailable(site.shell()):
        pytest.skip(reason)
    return key


@pytest.mark.parametrize("path", ["cluster-ip", "node-port"])
def test_service_leads_to_its_server_and_leaves_nothing(
    site: lab.Lab, undo: ExitStack, path: str, network: str, ends: tuple[Pod, Pod]
) -> None:
    """A connection to the service's address reaches the server, is counted, and every rule and route goes again."""
    (client, server), near = ends, site.nodes[0]
    before, routes = rules(site.nodes), near.ip("route").stdout
    way = opened(site, undo, path, client, server)
    served(undo, server, port_of(path))

    answers = [asked(client, way, port_of(path)) for _ in range(3)]

    assert way.connections() == 3
    assert {answer.split()[0] for answer in answers} == {server.name}
    seen = {answer.split()[-1] for answer in answers}
    if path == "cluster-ip" and not on_node(client):
        assert seen == {client.address}, "a pod comes under its own address"
    else:
        addresses = {found.split("/")[0] for node in site.nodes for found in node.ip("-4", "address").stdout.split()}
        assert seen <= addresses, "who is masqueraded comes under an address of a node"
    way.close()
    assert rules(site.nodes) == before
    assert near.ip("route").stdout == routes


@pytest.mark.parametrize("path", ["cluster-ip", "node-port"])
def test_datagrams_take_the_same_way(site: lab.Lab, undo: ExitStack, path: str) -> None:
    """A tool that measures UDP through a service is translated too, and hears the service answer."""
    client, server = site.pod(site.nodes[0], "calico"), site.pod(site.nodes[1], "calico")
    way = opened(site, undo, path, client, server)
    served(undo, server, port_of(path), DATAGRAM_SERVER)

    answer = asked(client, way, port_of(path), DATAGRAM_CLIENT)

    assert answer.startswith(server.name)
    assert answer.endswith(f"from {way.host}")
    assert way.connections() == 1


def test_services_stand_beside_each_other(site: lab.Lab, undo: ExitStack) -> None:
    """Two services of one port have an address and a count each; closing one leaves the other, the last all."""
    before = rules(site.nodes)
    client, pods = site.pod(site.nodes[0], "calico"), [site.pod(site.nodes[1], "calico") for _ in range(2)]
    one, two = (opened(site, undo, "cluster-ip", client, pod) for pod in pods)
    for pod in pods:
        served(undo, pod, 8080)

    assert asked(client, one, 8080).split()[0] == pods[0].name
    assert [asked(client, two, 8080).split()[0] for _ in range(2)] == [pods[1].name] * 2
    assert (one.connections(), two.connections()) == (1, 2)
    one.close()
    assert asked(client, two, 8080).split()[0] == pods[1].name
    two.close()
    two.close()
    assert rules(site.nodes) == before


def test_runs_do_not_meet_the_connections_of_earlier_ones(site: lab.Lab, undo: ExitStack) -> None:
    """Sockets that the server closed are ended before a run, those of others and open ones are left alone."""
    client, server = site.pod(site.nodes[0], "calico"), site.pod(site.nodes[1], "calico")
    way = opened(site, undo, "node-port", client, server)
    for port in (30000, 8080):
        served(undo, server, port)
        client.shell.run([sys.executable, "-c", CLIENT, server.address, str(port)])
    asked(client, way, 30000)
    waiting = ["ss", "--tcp", "--numeric", "--no-header", "state", "time-wait", "sport = :30000"]
    assert server.shell.run(waiting).stdout.count("\n") == 2

    way.forget()

    if server.shell.run(waiting).stdout:
        pytest.skip("this kernel cannot end a connection (CONFIG_INET_DIAG_DESTROY)")
    assert server.shell.run([*waiting[:-1], "sport = :8080"]).stdout.count("\n") == 1
    assert asked(client, way, 30000).split()[0] == server.name


def test_connections_that_stay_are_an_error(site: lab.Lab, undo: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel cannot end them, a run that would be slowed down by them is not begun."""
    client, server = site.pod(site.nodes[0], "calico"), site.pod(site.nodes[1], "calico")
    way = opened(site, undo, "node-port", client, server)
    monkeypatch.setattr(_services, "MOST_LEFT", -1)

    with pytest.raises(StandError, match="TIME_WAIT"):
        way.forget()


def test_refused_rule_leaves_nothing(site: lab.Lab, undo: ExitStack) -> None:
    """A rule that the kernel does not take ends in an error, and what other nodes had taken already goes again."""
    before = rules(site.nodes)
    client, server = site.pod(site.nodes[0], "calico"), site.pod(site.nodes[1], "calico")
    broken = replace(site.nodes[1], shell=LocalShell(("false",)))

    with pytest.raises(CommandError):
        registry.find("paths", "cluster-ip").open(
            Service("selftest/web", (site.nodes[0], broken), client, server, (8080,))
        )
    assert rules(site.nodes) == before


def test_replies_past_the_rules_are_refused(site: lab.Lab, undo: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without br_netfilter a bridge would carry the answer untranslated: the reason says so before anybody waits."""
    before = rules(site.nodes)
    client, server = (site.pod(site.nodes[0], "flannel") for _ in range(2))
    monkeypatch.setattr(_services, "_BRIDGED", "net.bridge.nothing-such")

    with pytest.raises(StandError, match="modprobe br_netfilter"):
        opened(site, undo, "cluster-ip", client, server)
    assert rules(site.nodes) == before
    opened(site, undo, "node-port", client, server).close()


def test_overlay_is_entered_at_the_clients_node(site: lab.Lab, undo: ExitStack) -> None:
    """A node port on the server's node would leave the overlay out, so there the client's node is addressed."""
    hosts = {}
    for network in ("calico", "flannel"):
        client, server = site.pod(site.nodes[0], network), site.pod(site.nodes[1], network)
        way = opened(site, undo, "node-port", client, server)
        hosts[network] = way.host
        way.close()

    assert hosts == {"calico": site.nodes[1].address, "flannel": site.nodes[0].address}


def test_network_past_the_node_is_a_skip(site: lab.Lab) -> None:
    """A network whose packets never meet the node's rules cannot offer a service, and says why."""
    for path in ("cluster-ip", "node-port"):
        assert "past their node's IP stack" in str(registry.find("paths", path).unavailable(site.shell(), False))


def test_missing_iptables_names_its_package(site: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without iptables says what to install."""
    monkeypatch.setattr(LocalShell, "which", lambda self, program: None)

    assert "apt-get install iptables" in str(find_iptables(site.shell()))


def test_variant_that_works_is_taken(site: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the default iptables cannot write the rules another variant is tried, and the probe leaves nothing."""
    real, default = LocalShell.run, ["iptables-restore", "iptables-nft-restore"]
    monkeypatch.setattr(
        LocalShell,
        "run",
        lambda self, argv, **given: real(self, ["false"] if argv[0] in default else argv, **given),
    )
    if site.shell().which("iptables-legacy-restore") is None:
        pytest.skip("iptables-legacy is not installed; install it with: apt-get install iptables")

    found = find_iptables(site.shell())

    if isinstance(found, str):
        pytest.skip(f"this kernel has no legacy tables: {found}")
    assert found.program == "iptables-legacy"
    assert "WEIGHBRIDGE" not in site.shell().run(["iptables-legacy-save"]).stdout


def test_only_its_own_rules_are_counted() -> None:
    """The count is that of the DNAT rules in the service's own chains, whatever else stands in the table."""
    saved = textwrap.dedent("""\
        [7:420] -A KUBE-SEP-AAAAAAAAAAAAAAAA -s 10.0.0.1/32 -m comment --comment a/b:c -j KUBE-MARK-MASQ
        [5:300] -A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment a/b:c -j DNAT --to-destination 10.0.0.1:80
        [9:540] -A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m comment --comment d/e:f -j DNAT --to-destination 10.0.0.2:80
    """)

    assert translated(saved, {"KUBE-SEP-AAAAAAAAAAAAAAAA"}) == 5
    assert translated(saved, set()) == 0


def test_service_addresses_are_never_given_twice() -> None:
    """The first free one is taken, with counters in the listing or without; a full range is an error."""
    lines = [f"-A KUBE-SERVICES -d 198.18.255.{n}/32 -p tcp -j KUBE-SVC-X" for n in range(1, 255)]

    assert free_address("") == "198.18.255.1"
    assert free_address("\n".join(lines[:1])) == "198.18.255.2"
    assert free_address("\n".join(f"[0:0] {line}" for line in lines[:1] + lines[2:])) == "198.18.255.2"
    with pytest.raises(StandError, match="no service address is free"):
        free_address("\n".join(lines))


def test_cluster_cidr_tells_pods_from_nodes(site: lab.Lab) -> None:
    """Pods of a service lie in its cluster CIDR, nodes do not; a server on the host network has none."""
    node = site.nodes[0]
    pod = Pod("pod", 1, node, "pod", node.shell, "198.19.2.5")

    assert cluster_cidr([pod], pod) == "198.19.2.5/32"
    assert cluster_cidr([pod, replace(pod, address="198.19.1.4")], pod) == "198.19.0.0/22"
    assert cluster_cidr([], replace(pod, address=node.address)) is None


@pytest.mark.parametrize("path", ["cluster-ip", "node-port"])
def test_an_ordinary_user_gets_services_too(path: str) -> None:
    """Inside a user namespace the same rules carry qperf over flannel, both on one node and across nodes."""
    program = textwrap.dedent(f"""
        from dataclasses import replace
        from pathlib import Path
        from weighbridge.scenario import load
        from weighbridge.stand import stand_up, unavailable
        from weighbridge.targets import Request, lab
        cell = next(c for c in load(Path("{ROOT}/scenarios/socket_1c2g.toml"), "smoke").cells)
        with lab.open_site(Request("rootless", Path("."))) as site:
            for place in ("same-node", "cross-node"):
                axes = {{"runtime": "host", "network": "flannel", "placement": place, "path": "{path}"}}
                asked = replace(cell, axes=axes)
                if reason := unavailable(site, asked):
                    print("skip", reason)
                    continue
                stand = stand_up(site, asked)
                print(stand.read(asked, asked.load, 0).problem, stand.unproven())
                stand.close()
    """)
    done = run_as_ordinary_user(program)

    if done.stdout.startswith("skip"):
        pytest.skip(done.stdout.splitlines()[0].removeprefix("skip "))
    assert done.stdout.splitlines() == ["None None"] * 2, done.stderr


def test_qperf_measures_time_after_time(site: lab.Lab) -> None:
    """Control and data port are both translated, and none of twenty runs leaves a socket that stops the next."""
    cell = next(iter(load(ROOT / "scenarios" / "socket_1c2g.toml", "smoke").cells))
    tool = registry.find("tools", "qperf")
    asked_load = tool.Load.model_validate({"tests": ["tcp_lat"], "duration": "1s"})
    with ExitStack() as undo:
        stands = []
        for path in ("cluster-ip", "node-port"):
            axes = {"runtime": "host", "network": "calico", "placement": "cross-node", "path": path}
            through = replace(cell, axes=axes)
            if reason := unavailable(site, through):
                pytest.skip(reason)
            stands.append((through, stand_up(site, through)))
            undo.callback(stands[-1][1].close)
        for number in range(10):
            for through, stand in stands:
                reading = stand.read(through, asked_load, number)
                assert reading.problem is None
                assert tool.select(tool.parse(reading.output), asked_load)["latency_mean"] > 0
                assert stand.unproven() is None
