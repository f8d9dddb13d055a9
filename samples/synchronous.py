"""Trains `synchronous.dfg` from three threads, the workers: `python samples/synchronous.py BUNDLE`."""

import sys
import threading
from pathlib import Path

import numpy as np

import dfc_runtime as dfc

WORKERS, EPOCHS, BATCH = 3, 10, 32
digits = np.load(Path(__file__).parent / "data" / "digits.npz")
images, labels = digits["train_images"], digits["train_labels"]
model = dfc.load(sys.argv[1])
steps = EPOCHS * (len(labels) // (WORKERS * BATCH))
versions: list[list[int]] = [[] for _ in range(WORKERS)]


def work(number: int) -> None:
    """Every third batch is this worker's."""
    for step in range(steps):
        start = (step * WORKERS + number) * BATCH % (len(labels) - BATCH)
        done = model.work(images=images[start : start + BATCH], labels=labels[start : start + BATCH])
        versions[number].append(int(done.version))


threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
in_step = all(each == list(range(steps)) for each in versions)
accuracy = model.evaluate(images=digits["test_images"], labels=digits["test_labels"])
print(f"{steps} steps, every worker at the same version: {in_step}, {accuracy.accuracy:.1%} of the test images")
model.close()
