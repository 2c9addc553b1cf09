"""One nginx worker that answers every request with the 612-byte page study 003 was served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weighbridge.servers import over_tcp as transport
from weighbridge.servers import serves_on as single_use

__all__ = ["DATA_PORTS", "KNOCK", "PACKAGE", "PORT", "PROGRAMS", "TOOLS", "argv", "files", "single_use", "transport"]

PROGRAMS = ("nginx",)
TOOLS = ("wrk", "wrk2", "ab", "ping")
PACKAGE = "nginx-light"
PORT = 8080
DATA_PORTS = 0
KNOCK = True
BODY_BYTES = 612

# The user is root because nginx hands its folders to its user, and the user namespace of a rootless lab
# knows no other.

_CONFIGURATION = """\
daemon off;
user root root;
master_process off;
worker_processes 1;
pid {workdir}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    default_type text/html;
    keepalive_requests 1000000000;
    client_body_temp_path {workdir}/body;
    proxy_temp_path {workdir}/proxy;
    fastcgi_temp_path {workdir}/fastcgi;
    uwsgi_temp_path {workdir}/uwsgi;
    scgi_temp_path {workdir}/scgi;
    server {{
        listen {port} backlog=4096;
        root {workdir}/www;
        open_file_cache max=16;
    }}
}}
"""


def argv(program: str, port: int, workdir: str, load: Any) -> list[str]:  # noqa: ARG001 - both are in the file
    """One process in the foreground: a master would only watch a worker that dies with the run anyway."""
    return [program, "-p", workdir, "-c", f"{workdir}/nginx.conf", "-e", "stderr"]


def files(port: int, workdir: str) -> Mapping[str, str]:
    """Its configuration and the page."""
    return {
        f"{workdir}/nginx.conf": _CONFIGURATION.format(workdir=workdir, port=port),
        f"{workdir}/www/index.html": "x" * BODY_BYTES,
    }
