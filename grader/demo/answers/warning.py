import warnings

# I want to see when a cell has started.
get_ipython().events.register("pre_run_cell", lambda info: warnings.warn("a cell has started"))
