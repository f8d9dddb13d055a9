"""`python -m bench.gpu`."""

from __future__ import annotations

from bench.gpu.cases import main

if __name__ == "__main__":
    main()
