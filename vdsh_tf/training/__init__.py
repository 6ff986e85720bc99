"""Training runs: settings, presets, run directories."""
