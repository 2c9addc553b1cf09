"""A port of a node's own address that leads to a service, for clients from anywhere.

    client ─→ node's address:30000 → KUBE-NODEPORTS on that node: marked, translated, masqueraded ─→ server

The node is the server's, as in study 000. Where the pods' network is an overlay, packets to that node
would cross the link outside of it; there the client's own node is addressed, and its packets reach the
server over the overlay, as they do in a cluster with externalTrafficPolicy=Cluster. Either way the
server sees the address of a node.

Node port, service port and the server's own port are one number, because a qperf server names its data
port to the client, which study 000 met with `-lp 4000 -ip 4001`.
"""

from __future__ import annotations

import json

from weighbridge.hosts import Node
from weighbridge.paths import Service, Way
from weighbridge.paths._services import PACKAGES, open_services, unavailable

__all__ = ["PACKAGES", "PORTS", "TRANSLATES", "open", "unavailable"]

PORTS = range(30000, 32768)
"""Kubernetes' own range of node ports."""
TRANSLATES = True


def open(service: Service) -> Way:  # noqa: A001 - a path's own word
    """Write the rules on every node.

    Raises CommandError when the kernel refuses a rule, StandError when no address is free; nothing is
    left behind then.
    """
    node = _addressed(service)
    made = open_services(service, node_ports=True)
    evidence = {"node port": f"{node.address}:{service.ports[0]} on {node.name}", **made.evidence()}
    return Way(node.address, made.connections, evidence, made.close, made.forget)


def _addressed(service: Service) -> Node:
    here, there = service.client.node, service.server.node
    overlay = _device(here, service.server.address) != _device(here, there.address)
    return here if here is not there and overlay else there


def _device(node: Node, address: str) -> str:
    """The device by which a node sends to an address."""
    return str(json.loads(node.ip("-json", "route", "get", address).stdout)[0]["dev"])
