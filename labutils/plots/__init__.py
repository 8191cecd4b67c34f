"""Pictures: data in, matplotlib Figure out, nothing else.

Colors are Okabe and Ito's palette, which people with any kind of color vision can distinguish; every figure carries its
message as text, too (`figure.alt`), for screen readers.
"""

from .accesses import LANES, MAX_PICTURED, access_map, banks, coalescing, costs, line_costs
from .base import PALETTE, Unavailable, _picture, figure, show
from .charts import Box, curves, gantt
from .machine import divergence, occupancy, timeline, waves
from .queues import queue_timeline
from .roofs import formats, parts_and_roofline, roofline

__all__ = [
    "LANES", "MAX_PICTURED", "PALETTE", "Box", "Unavailable", "_picture", "access_map", "banks", "coalescing", "costs",
    "curves", "divergence", "figure", "formats", "gantt", "line_costs", "occupancy", "parts_and_roofline",
    "queue_timeline", "roofline", "show", "timeline", "waves",
]  # fmt: skip
