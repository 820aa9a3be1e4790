"""Experiments as typed settings: sections, YAML with line numbers, overrides, recipes."""
