"""Feeds the digits to `pipeline.dfg` by started calls, while it trains: `python samples/pipeline.py BUNDLE`."""

import sys
from pathlib import Path

import numpy as np

import dfc_runtime as dfc

EPOCHS = 20
digits = np.load(Path(__file__).parent / "data" / "digits.npz")
model = dfc.load(sys.argv[1])

# All images, epoch by epoch: a call waits while the queues are full, and each for the one before it.
feeds = [model.feed.start(images=digits["train_images"], labels=digits["train_labels"]) for _ in range(EPOCHS)]
feeds.append(model.finish.start())
steps = 0
try:
    while True:
        loss = model.train(rate=0.3)
        steps += 1
except dfc.EndOfData:
    pass
for each in feeds:
    each.result()  # what a call has raised is raised here
accuracy = model.evaluate(images=digits["test_images"], labels=digits["test_labels"])
print(f"{steps} steps, loss {loss.loss:.3f}, {accuracy.accuracy:.1%} of the test images")
model.close()
