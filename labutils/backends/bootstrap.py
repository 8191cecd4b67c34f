"""Importing this chooses where Triton's kernels run: on this machine's GPU or, without one, in Triton's interpreter.

Triton asks for TRITON_INTERPRET once, when it is imported: after that its own functions are either compiled or
interpreted. So this must come before anything imports Triton. `labutils/__init__.py` imports it, so any import from
labutils does, too: no other file has to think of it, unless it imports Triton before labutils.
"""

import os
import sys

from ..gpu import device

if not device.has_gpu() and "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "1"
