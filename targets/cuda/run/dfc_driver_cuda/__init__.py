"""The run half of the target `cuda`: plans as graphs of the driver API. Needs the runtime and nothing of the compiler.

Read first: `driver`, then `dfc_runtime.plans` and `executor`.
"""
