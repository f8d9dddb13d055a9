"""Makes numbers and their Roman numerals, and trains `seq2seq.dfg` with them: `python samples/seq2seq.py BUNDLE`."""

import sys
import threading

import numpy as np

import dfc_runtime as dfc

LETTERS, END, EPOCHS = "IVXLCDM", 7, 12
STEPS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")]
STEPS += [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def roman(number: int) -> str:
    """The numeral of a number below 4000."""
    text = ""
    for value, letters in STEPS:
        text += letters * (number // value)
        number %= value
    return text


def digits_of(number: int) -> np.ndarray:
    return np.array([int(digit) for digit in str(number)], np.int32)


generator = np.random.default_rng(0)
numbers = generator.permutation(np.arange(1, 4000))
held_out, trained = numbers[:400], numbers[400:]
model = dfc.load(sys.argv[1])


def feed() -> None:
    """Number by number in random order; `feed` waits while the queue is full."""
    for _ in range(EPOCHS):
        for number in generator.permutation(trained):
            letters = [*map(LETTERS.index, roman(number)), END]
            model.feed(digits=digits_of(number), letters=np.array(letters, np.int32))
    model.finish()


feeder = threading.Thread(target=feed)
feeder.start()
steps, padding = 0, 0.0
try:
    while True:
        loss, part = model.train()
        steps, padding = steps + 1, padding + part
except dfc.EndOfData:
    pass
feeder.join()

digits = np.zeros((len(held_out), 4), np.int32)
for row, number in zip(digits, held_out, strict=True):
    row[: len(str(number))] = digits_of(number)
lengths = np.array([len(str(number)) for number in held_out])
written = model.write(digits, lengths).letters
texts = ["".join((LETTERS + " ")[letter] for letter in row).split(" ")[0] for row in written]
right = sum(text == roman(number) for text, number in zip(texts, held_out, strict=True))
print(f"{steps} steps, {padding / steps:.0%} padding, loss {loss:.4f}")
print(f"{right} of {len(held_out)} numbers right that it has not seen, such as {held_out[0]} = {texts[0]}")
model.close()
