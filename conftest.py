"""Names the plugin modules; no logic."""

pytest_plugins = ["weighbridge.plugin", "fixtures.outcomes", "fixtures.stands"]
