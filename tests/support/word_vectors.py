"""Skip-gram word vectors with a sampled softmax: a program that returns what it drew, and its transcription."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WORDS, WIDTH, SAMPLES = 50, 6, 8

PROGRAM = f"""dfg 1

const WORDS = {WORDS}
const WIDTH = {WIDTH}
const SAMPLES = {SAMPLES}

param table: f64[WORDS, WIDTH] = uniform(-0.5 / WIDTH, 0.5 / WIDTH)
param output: f64[WORDS, WIDTH] = 0
param bias: f64[WORDS] = 0
var dice: rng = philox(seed = 5)
var seen: i64 = 0

fn expected_draws[..S](words: i32[..S]) -> f64[..S] {{
  let rank = words as f64
  return SAMPLES * log((rank + 2) / (rank + 1)) / log(WORDS as f64 + 1)
}}

fn sampled_softmax[B, K](x: f64[B, WIDTH], truth: i32[B], noise: i32[K]) -> f64[B] {{
  let good = sum(x * output[truth], axis = 1) + bias[truth] - log(expected_draws(truth))
  let bad = x @ transpose(output[noise]) + bias[noise] - log(expected_draws(noise))
  let clash = truth[:, new] == noise[new, :]
  let logits = concat([good[:, new], select(clash, -1e9, bad)], axis = 1)
  return cross_entropy(logits, zeros(i32[B]))
}}

entry train[B](center: i32[B], context: i32[B], rate: f64) -> (loss: f64, drawn: i32[SAMPLES]) {{
  let x = table[center]
  let noise = dice.log_uniform(i32[SAMPLES], below = WORDS)
  let loss = mean(sampled_softmax(x, context, noise))
  let dx, doutput, dbias = grad(loss, [x, output, bias])
  table[center] -= rate * dx
  output -= rate * doutput
  bias -= rate * dbias
  seen += B
  return loss, noise
}}
"""


def expected_draws(words: np.ndarray) -> np.ndarray:
    return SAMPLES * np.log((words + 2.0) / (words + 1.0)) / np.log(WORDS + 1.0)


@dataclass
class WordVectors:
    """Dense gradients, as one would write them down."""

    table: np.ndarray
    output: np.ndarray
    bias: np.ndarray

    def __post_init__(self) -> None:
        self.table, self.output, self.bias = self.table.copy(), self.output.copy(), self.bias.copy()

    def step(self, center: np.ndarray, context: np.ndarray, noise: np.ndarray, rate: float) -> float:
        x, true, sampled = self.table[center], self.output[context], self.output[noise]
        good = (x * true).sum(1) + self.bias[context] - np.log(expected_draws(context))
        bad = x @ sampled.T + self.bias[noise] - np.log(expected_draws(noise))
        clash = context[:, None] == noise[None]
        logits = np.concatenate([good[:, None], np.where(clash, -1e9, bad)], 1)
        shifted = np.exp(logits - logits.max(1, keepdims=True))
        share = shifted / shifted.sum(1, keepdims=True)
        loss = -np.log(share[:, 0]).mean()
        share[:, 0] -= 1
        share /= len(center)
        to_good, to_bad = share[:, 0], np.where(clash, 0, share[:, 1:])
        dx = to_good[:, None] * true + to_bad @ sampled
        output_gradient, bias_gradient = np.zeros_like(self.output), np.zeros_like(self.bias)
        np.add.at(output_gradient, context, to_good[:, None] * x)
        np.add.at(output_gradient, noise, to_bad.T @ x)
        np.add.at(bias_gradient, context, to_good)
        np.add.at(bias_gradient, noise, to_bad.sum(0))
        np.subtract.at(self.table, center, rate * dx)
        self.output -= rate * output_gradient
        self.bias -= rate * bias_gradient
        return float(loss)
