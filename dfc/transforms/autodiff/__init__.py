"""Gradients: `grad` and `jacobian` nodes become the nodes that compute them. Read first: `autodiff`, then `reverse`.

In: a graph with gradient nodes. Out: one without.
"""
