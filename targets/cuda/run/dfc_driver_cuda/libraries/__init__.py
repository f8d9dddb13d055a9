"""What libraries of NVIDIA make in place of kernels: in comes a launch with its sizes, out comes a call that is queued.

Read first: `launches` and `native`, what all libraries have in common; `products` asks cuBLASLt (`cublaslt`, weighed by
`product_costs`), `convolutions` asks cuDNN (`cudnn`).
"""
