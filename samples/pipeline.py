"""Feeds the digits to `pipeline.dfg` from one thread, while another one trains: `python samples/pipeline.py BUNDLE`."""

import sys
import threading
from pathlib import Path

import numpy as np

import dfc_runtime as dfc

EPOCHS = 20
digits = np.load(Path(__file__).parent / "data" / "digits.npz")
model = dfc.load(sys.argv[1])


def feed() -> None:
    """All images, epoch by epoch; `feed` waits while the queues are full."""
    for _ in range(EPOCHS):
        model.feed(images=digits["train_images"], labels=digits["train_labels"])
    model.finish()


feeder = threading.Thread(target=feed)
feeder.start()
steps = 0
try:
    while True:
        loss = model.train(rate=0.3)
        steps += 1
except dfc.EndOfData:
    pass
feeder.join()
accuracy = model.evaluate(images=digits["test_images"], labels=digits["test_labels"])
print(f"{steps} steps, loss {loss.loss:.3f}, {accuracy.accuracy:.1%} of the test images")
model.close()
