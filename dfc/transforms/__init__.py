"""Graph to graph, one pass a module. In and out: a verified graph; a pass never changes the one it got.

The order and its reasons stand in `dfc.driver.pipeline`.

Read first: `scalar/simplify`, then `autodiff`.
"""
