"""Looking at what a model learned: attention maps and learning curves, as figures and as files."""
