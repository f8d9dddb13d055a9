"""A small network in the manner of VGG: pairs of convolutions, each before a pool, trained by gradient descent."""

TEXT = """dfg 1

from std.nn import Conv2d, Dense
from std.optim import Sgd

block Stage[I, O] {
  var first = Conv2d[I, O]()
  var second = Conv2d[O, O]()

  proc apply[B, H, W](x: f32[B, H, W, I]) -> f32[B, H // 2, W // 2, O] {
    return x |> first |> relu |> second |> relu |> max_pool(size = 2)
  }
}

block Net {
  var one = Stage[3, 64]()
  var two = Stage[64, 128]()
  var three = Stage[128, 256]()
  var output = Dense[4 * 4 * 256, 10]()

  proc apply[B](images: f32[B, 32, 32, 3]) -> f32[B, 10] {
    return images |> one |> two |> three |> reshape([B, 4 * 4 * 256]) |> output
  }
}

var net = Net()
var sgd = Sgd(params(net), rate = 0.01)

entry train[B](images: f32[B, 32, 32, 3], labels: i32[B]) -> (loss: f32) {
  let loss = mean(cross_entropy(net(images), labels))
  sgd.step(loss)
  return loss
}
"""
LARGEST_ACTIVATION = 32 * 32 * 64
"""Elements for each image."""
