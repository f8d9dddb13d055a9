"""Whole programs as device code without a device: `NUMBA_ENABLE_CUDASIM=1 pytest tests/simulated`.

Not collected otherwise: numba has its simulator in place of its compiler for a whole process.
"""

import os

collect_ignore_glob = [] if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else ["test_*.py"]
