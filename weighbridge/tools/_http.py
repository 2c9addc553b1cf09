"""What every HTTP load tool is told in the same way: the address and the request headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from weighbridge.tools import Endpoint

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z][-!#$%&'*+.^_`|~0-9A-Za-z]*\Z")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*\Z")


def _checked(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is no header name")
        if not _VALUE.match(value):
            raise ValueError(f"header {name!r} holds a control character")
    return headers


Headers = Annotated[dict[str, str], AfterValidator(_checked)]
"""Request headers: RFC 9110 field names that cannot be taken for an option, values without control characters."""


def _file(path: str) -> str:
    if not path or path.startswith("-") or "\x00" in path:
        raise ValueError(f"{path!r} is no file name a command line can carry")
    return path


FileName = Annotated[str, AfterValidator(_file)]
"""The name of a file on the client, which can never be taken for an option."""


def header_options(headers: Mapping[str, str]) -> list[str]:
    """Return `-H "Name: value"` for each header, as wrk, wrk2 and ab take it."""
    return [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]


def url(server: Endpoint) -> str:
    """Return the server's plain HTTP address; an IPv6 host gets its brackets (RFC 3986)."""
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"http://{host}:{server.port}/{server.path.removeprefix('/')}"
