"""The run half of the target `cuda`: its driver API, its libraries, its own kernels. Needs nothing of the compiler.

Read first: `driver`, then `dfc_runtime.graphs`, which runs plans on any device.

In: a plan and code. Out: graphs of the device, launched.
"""
