"""Finished runs over HTTP: an API for programs, and a page to look into a model."""
