"""What `dfc bench cnn` measures: networks of the zoo, their ranks and deployments, batches, and what a step took.

In come the arguments of the guide of TensorFlow's benchmarks, out goes a table or JSON. Read `jobs` first.
"""
