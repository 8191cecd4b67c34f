"""GPUs as numbers: the catalogue and the GPU of this machine, occupancy, rooflines, number formats, a simulated GPU."""
