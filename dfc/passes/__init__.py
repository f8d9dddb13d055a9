"""Passes: graph to graph, one file each. The order and the reasons stand in `dfc.pipeline`."""
