"""The CPU target: `target` is the compile half (LLVM), `driver` the run half, which needs only the runtime."""
