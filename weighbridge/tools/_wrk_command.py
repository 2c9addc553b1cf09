"""What wrk and wrk2 are asked in the same words."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from weighbridge import tools
from weighbridge.tools import Endpoint
from weighbridge.tools._http import FileName, Headers, header_options, url
from weighbridge.units import Count, Duration


class Load(tools.Load):
    """`threads` that share `connections` for `duration` (whole seconds); `latency` asks for percentiles."""

    threads: Count = Field(ge=1)
    connections: Count = Field(ge=1)
    duration: Duration
    latency: bool = True
    headers: Headers = Field(default_factory=dict)
    script: FileName | None = None

    @field_validator("duration")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        if value < 1 or value != int(value):
            raise ValueError(f"wrk counts whole seconds, not {value:g} s")
        return value

    @model_validator(mode="after")
    def _each_thread_has_a_connection(self) -> Load:
        if self.connections < self.threads:
            raise ValueError(f"{self.connections} connections cannot serve {self.threads} threads")
        return self


def argv(program: str, load: Load, server: Endpoint, *more: str) -> list[str]:
    """Return the command line, with what only one of the two knows before the URL."""
    return [
        program,
        f"-t{load.threads}",
        f"-c{load.connections}",
        f"-d{load.duration:.0f}s",
        *more,
        *(["--latency"] if load.latency else []),
        *(["-s", load.script] if load.script else []),
        *header_options(load.headers),
        url(server),
    ]


def planned(load: Load) -> float:
    """Return the seconds one run should take."""
    return float(load.duration)
