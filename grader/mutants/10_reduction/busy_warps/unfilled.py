# expect: unfilled
# The cell as it is handed out.
def busy_warps(threads, s):
    raise NotImplementedError("busy_warps is not written yet")
