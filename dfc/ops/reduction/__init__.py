"""Ops that reduce along axes: sums, extremes, statistics, prefix scans."""
