"""Weighbridge: reproducible performance tests for container runtimes, networks and sidecars."""

__version__ = "0.1.0"
