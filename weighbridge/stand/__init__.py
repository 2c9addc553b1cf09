"""One stood-up server and client for a cell: target, network, runtime, path and server put together.

What a stand makes is undone in reverse order, also when standing up fails half-way.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType

from weighbridge import registry
from weighbridge.errors import MissingToolError, StandError
from weighbridge.hosts import Node, Pod
from weighbridge.model import Cell, PhysicalLimit
from weighbridge.paths import Service
from weighbridge.runtimes import Command
from weighbridge.shell import find_program
from weighbridge.stand import needed, placed
from weighbridge.stand.answer import Awaited, Started, started
from weighbridge.stand.live import LiveStand
from weighbridge.stand.reading import Reading, Stand
from weighbridge.stand.recorded import RecordedStand
from weighbridge.targets import Hosts, Recordings, Site
from weighbridge.tools import Endpoint
from weighbridge.wire import tcp_limit

__all__ = ["LiveStand", "Reading", "RecordedStand", "Stand", "stand_key", "stand_up", "unavailable"]


def unavailable(site: Site, cell: Cell) -> str | None:
    """Why a cell cannot be measured on a site; None when it can.

    Probes once per kind of thing; nothing is stood up.
    """
    if isinstance(site, Recordings):
        return None if site.recordings(cell) else "no recording of this cell"
    return _beyond_hosts(cell) or placed.unavailable(cell, site.capacity) or _missing_here(site, cell)


def _beyond_hosts(cell: Cell) -> str | None:
    """What the scenario asks that bare hosts do not offer."""
    if cell.axis("sidecar", "none") != "none":
        return f"the lab has no sidecar {cell.axis('sidecar')!r}"
    if cell.conditions:
        return f"the lab cannot set {', '.join(cell.conditions)}"
    return None if cell.server else "the scenario names no server to stand up"


def _missing_here(site: Hosts, cell: Cell) -> str | None:
    """What this machine lacks: a kernel device, a runtime, a program."""
    shell = site.shell()
    network = registry.find("networks", cell.axis("network", "host"))
    runtime = registry.find("runtimes", cell.axis("runtime", "host"))
    path = registry.find("paths", cell.axis("path", "pod-ip"))
    tool, server = registry.find("tools", cell.tool), registry.find("servers", str(cell.server))
    if reason := network.unavailable(shell) or runtime.unavailable(shell) or path.unavailable(shell, network.SERVICES):
        return str(reason)
    limits = placed.scaled(cell.limits, site.capacity)
    if reason := runtime.refuses(limits, network.PODS):
        return str(reason)
    try:
        for module in (tool, server):
            find_program(shell, module.PROGRAMS, module.PACKAGE)
    except MissingToolError as error:
        return str(error)
    return needed.unavailable(site, cell, path)


def stand_key(site: Site, cell: Cell) -> tuple[object, ...]:
    """Cells with the same key share a stand: one server live, one set of recordings in replay."""
    return cell.slot_key if isinstance(site, Recordings) else (*cell.stand_key, needed.keys(cell))


def stand_up(site: Site, cell: Cell) -> Stand:
    """Stand up the server and client of a cell.

    Raises StandError, CommandError or MissingToolError; nothing is left behind then.
    """
    if isinstance(site, Recordings):
        found = {recording.round: recording for recording in site.recordings(cell)}
        network = registry.find("networks", cell.axis("network", "host"))
        return RecordedStand(found, _limit(site.stated_link_rate(cell), network.OVERHEAD, cell))
    with ExitStack() as undo:
        stand = _Building(site, cell, undo).built()
        stand.undo = undo.pop_all()
        return stand


@dataclass
class _Building:
    """A stand being stood up; what is made goes onto `undo` at once."""

    site: Hosts
    cell: Cell
    undo: ExitStack

    def built(self) -> LiveStand:
        site, cell = self.site, self.cell
        network_key, runtime_key = cell.axis("network", "host"), cell.axis("runtime", "host")
        network, server = registry.find("networks", network_key), registry.find("servers", str(cell.server))
        path = registry.find("paths", cell.axis("path", "pod-ip"))
        near, far = site.nodes[0], site.nodes[-1] if cell.placement == "cross-node" else site.nodes[0]
        needed.provide(site, cell, self.undo)
        server_pod = self.pod(far, network_key)
        client_pod = self.pod(near, "host" if cell.client == "node" else network_key)
        ports = self.ports(server_pod, path, server)
        name = f"{server_pod.name}-{runtime_key}-{cell.server}-{ports[0]}"
        way = path.open(Service(f"{site.run_id}/{name}", site.nodes, client_pod, server_pod, ports))
        self.undo.callback(way.close)
        translated = way.connections() is not None
        endpoint = Endpoint(way.host, ports[0], data_port=ports[1] if translated and len(ports) > 1 else None)
        placement, limits = placed.place(cell, site.capacity), placed.scaled(cell.limits, site.capacity)
        workdir = f"/run/weighbridge/{site.run_id}/{name}"
        files = server.files(ports[0], workdir)
        for file, content in files.items():
            site.files.write(file, content)
        program = find_program(server_pod.shell, server.PROGRAMS, server.PACKAGE)
        transport = server.transport(cell.load)
        if _listening(server_pod, transport, ports[0]):
            raise StandError(f"port {ports[0]} is in use in {server_pod.name}; end the server that holds it")
        argv = tuple(server.argv(program, ports[0], workdir, cell.load))
        command = Command(argv, workdir, files, placement.server)
        runtime = registry.find("runtimes", runtime_key)

        def start() -> Started:
            asked = Awaited(f"{cell.server} in {server_pod.name}", client_pod, endpoint, transport, ports[0])
            return started(
                lambda: runtime.start(server_pod, command, limits, site.files, site.run_id),
                asked,
                knock=transport == "tcp" and server.KNOCK,
            )

        limit = _limit(cell.link_rate, network.OVERHEAD, cell)
        stand = LiveStand(site, cell, limits, start, start(), client_pod, server_pod, endpoint, way, placement, limit)
        self.undo.callback(stand.stop_server)
        return stand

    def pod(self, node: Node, network: str) -> Pod:
        made = self.site.pod(node, network)
        self.undo.callback(self.site.remove, made, network)
        return made

    def ports(self, pod: Pod, path: ModuleType, server: ModuleType) -> tuple[int, ...]:
        """The ports that the server waits on: its own and those its clients meet it on besides."""
        scope, first = (pod.namespace, server.PORT) if path.PORTS is None else ("node ports", path.PORTS.start)
        found: list[int] = []
        for _ in range(1 + server.DATA_PORTS):
            found.append(self.site.reserve(scope, found[-1] + 1 if found else first))
            self.undo.callback(self.site.release, scope, found[-1])
        return tuple(found)


def _limit(link_rate: float | None, overhead: int, cell: Cell) -> PhysicalLimit | None:
    """The wire's limit; traffic on one node never meets the wire, and only a stream has TCP headers."""
    other = getattr(cell.load, "udp", False) or needed.keys(cell)
    if not link_rate or cell.placement != "cross-node" or other:
        return None
    return PhysicalLimit(*tcp_limit(link_rate, overhead))


def _listening(pod: Pod, transport: str, port: int) -> bool:
    listing = pod.shell.run(["ss", "--no-header", "--numeric", "--listening", f"--{transport}", f"sport = :{port}"])
    return bool(listing.stdout.strip())
