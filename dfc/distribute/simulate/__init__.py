"""A step of a replicated entry on any number of ranks, predicted: in, a placed entry and a network; out, seconds, bytes
of each link, and what holds the others up.

Read first: `network` (what a link can do), then `clocks` (what a rank is busy with until when), `sums` (the messages of
one sum over all ranks, by the run side's own plan) and `step`, which goes through an entry.
"""

from dfc.distribute.simulate.network import DEFAULT, Network, network_of
from dfc.distribute.simulate.step import Job, StepPrediction, simulated
from dfc.distribute.simulate.sums import SumPrediction

__all__ = ["DEFAULT", "Job", "Network", "StepPrediction", "SumPrediction", "network_of", "simulated"]
