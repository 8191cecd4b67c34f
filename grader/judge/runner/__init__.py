"""The runner: a process of the judge's own that launches machine code on a GPU, through the driver and nothing else.

It never sees a submission's text. It gets cubins, launch plans and bytes; it poisons, flushes, launches, watches the
clock, and hands bytes back. What those bytes are worth is not its business.
"""
