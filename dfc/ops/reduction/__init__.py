"""Ops that fold along axes: sums, extremes, statistics, prefix scans."""
