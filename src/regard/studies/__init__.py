"""Studies: grids of settings × seeds, trained, evaluated and compared, with the significance of differences."""
