"""TensorBoard's own reader and writer beside serac's event files. Needs PyPI's tensorboard. Run by event-files.sh.

event-files.py write FILE    an event file of the scalars below, whose bytes test/formats/tfevents.test.ts holds
event-files.py read FOLDER   what TensorBoard reads from the event files of a folder, as JSON
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

scalars = [("train/learning_rate", 0.045, 50), ("train/tot_loss", 1.5e-7, 3_000_000_000), ("train/grad_scale", float("inf"), 0)]


def write(path):
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1700000000.25, file_version="brain.Event:2").SerializeToString())
        for tag, value, step in scalars:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.write(Event(wall_time=1700000000.5, step=step, summary=summary).SerializeToString())
        writer.flush()


def read(folder):
    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in sorted(events.Tags()["scalars"])}))


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
