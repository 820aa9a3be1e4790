"""Pictures made with matplotlib: attention maps, beam trees, learning curves, comparisons."""
