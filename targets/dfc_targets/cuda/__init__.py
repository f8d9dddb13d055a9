"""The target `cuda`: kernels compiled ahead to PTX and cubins, run through the driver API."""
