"""Tests in several processes that are forks of one: `pytest --workers 3`.

One process collects, and forks workers that share all it has imported and collected. Each worker of pytest-xdist
collects for itself, which for sixteen thousand tests takes as long as a twentieth of them.

- `plugin`: the hooks of pytest.
- `supervisor`: in the first process: begins workers, passes on what they report, and replaces one that dies.
- `worker`: in a fork: takes a module's tests after the other and runs them.
- `units`: which tests belong together, in which order, and how workers come by them.
- `messages`: what a worker says, as lines of JSON.
"""
