"""Command-line programs: flags to settings, one library call, files."""
