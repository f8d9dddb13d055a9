"""The target `cuda`: kernels as device code of numba, compiled ahead to PTX and cubins, run through the driver API."""
