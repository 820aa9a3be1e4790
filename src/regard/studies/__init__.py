"""Studies: a grid of settings times seeds, trained, tested, and compared with the uncertainty stated."""
