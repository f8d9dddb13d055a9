"""The input pipeline runs end to end on files of records, and its copies do not show in the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dfc
from dfc_runtime.records.example import encode_example
from tests.support.pipelines import drained
from tests.support.record_files import write_records

PROGRAM = Path("samples/language/07_input_pipeline.dfg")
PASSES, BATCH = 10, 128
FILES, RECORDS, SHORT = 3, 70, 4
"""`SHORT` images of each file are smaller than the others, and are counted as broken."""


def make_records(folder: Path) -> None:
    """Images with a bright band, whose place is the label."""
    dice = np.random.default_rng(1)
    for file in range(FILES):
        examples: list[bytes] = []
        for number in range(RECORDS):
            label = int(dice.integers(10))
            image = dice.integers(60, size=784, dtype=np.uint8)
            image[78 * label : 78 * (label + 1)] += 120
            size = 100 if number < SHORT else 784
            examples.append(encode_example({"image": image[:size].tobytes(), "label": np.array([label])}))
        write_records(folder / f"train-{file}.rec", examples)


def trained(text: str, folder: Path) -> tuple[list[float], dict[str, np.ndarray]]:
    """The loss of each step until the data end, and the state behind them."""
    bundle = dfc.compile(text=text).to_bytes()
    model = dfc.loads(bundle, threads=1, data={"files": folder / "train-*.rec"})
    losses = [step.loss for step in drained(lambda: model.train(rate=0.1))]
    return losses, {name: np.array(model.state[name]) for name in ("net.w", "net.b", "broken", "files")}


def test_a_training_that_goes_on_from_a_checkpoint_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Taken while all runners work: in the midst, and behind the last record."""
    make_records(tmp_path)
    bundle = dfc.compile(text=PROGRAM.read_text()).to_bytes()
    data, names = {"files": tmp_path / "train-*.rec"}, ("net.w", "net.b", "broken", "files")
    model = dfc.loads(bundle, threads=1, data=data)
    losses: list[float] = []
    for step in (3, 14):
        losses += [model.train(rate=0.1).loss for _ in range(step - len(losses))]
        model.save(tmp_path / f"at-{step}")
    losses += [each.loss for each in drained(lambda: model.train(rate=0.1))]
    for step in (3, 14):
        again = dfc.loads(bundle, threads=2, data=data)
        again.restore(tmp_path / f"at-{step}")
        assert [each.loss for each in drained(lambda m=again: m.train(rate=0.1))] == losses[step:]
        assert all(np.array(again.state[n]).tobytes() == np.array(model.state[n]).tobytes() for n in names)
        again.close()


def test_the_pipeline_trains_on_files_of_records_until_their_end(tmp_path: Path) -> None:
    make_records(tmp_path)
    text = PROGRAM.read_text()
    losses, state = trained(text, tmp_path)
    intact = FILES * (RECORDS - SHORT) * PASSES
    assert len(losses) == intact // BATCH
    assert state["broken"] == FILES * SHORT * PASSES
    assert state["files"].tolist() == [FILES * RECORDS * PASSES, 0]
    assert losses[-1] < 0.5 * losses[0]
    alone = trained(text.replace("copies = 4", "copies = 1"), tmp_path)
    assert alone[0] == losses
    assert all(alone[1][name].tobytes() == value.tobytes() for name, value in state.items())
