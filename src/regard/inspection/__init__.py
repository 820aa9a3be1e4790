"""Looking at what a model learned: attention maps, beam trees, curves and comparisons, as figures and as files."""
