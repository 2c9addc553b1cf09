"""A service's address within the cluster: the client's node translates it into the server's own.

    client pod ─→ PREROUTING on its node: 198.18.255.1:8080 → server's address:8080 ─→ network ─→ server
    client in the node itself ─→ OUTPUT, and is masqueraded where the server is a pod

The rules are those of kube-proxy (`_kube_proxy.py`) for a service with one endpoint, on every node. A
service's port is the server's own, so that a tool whose server names a further port to its client, as
qperf's does, finds that one translated, too.
"""

from __future__ import annotations

from weighbridge.paths import Service, Way
from weighbridge.paths._services import PACKAGES, on_node, open_services, unavailable

__all__ = ["PACKAGES", "PORTS", "TRANSLATES", "open", "unavailable"]

PORTS = None
TRANSLATES = True


def open(service: Service) -> Way:  # noqa: A001 - a path's own word
    """Write the rules on every node; a client in a node's own namespace gets a route to the address.

    Raises CommandError when the kernel refuses a rule, StandError when no address is free or replies
    would pass the rules by; nothing is left behind then.
    """
    made = open_services(service, node_ports=False)
    node, address = service.client.node, made.cluster_ip
    try:
        if on_node(service.client):
            # A node of a cluster has a default route, and a packet without any never meets the rules.
            route = (f"{address}/32", "dev", node.device, "src", node.address)
            node.ip("route", "add", *route)
            made.undo.callback(node.ip, "route", "delete", *route)
    except BaseException:
        made.close()
        raise
    evidence = {"cluster ip": address, **made.evidence()}
    return Way(address, made.connections, evidence, made.close, made.forget)
