"""HTML: report pages, example pages, the interactive view."""
