import pickle

from protoreplay.experiments.run_messages import RunBegan, RunEnded, RunProgressSender, StepDone, TaskDone, tell
from protoreplay.experiments.run_progress import RunProgress


class Notes(RunProgress):
    """Notes every call."""

    def __init__(self):
        self.calls = []

    def begin(self, *what):
        self.calls.append(("begin", *what))

    def step(self, *what):
        self.calls.append(("step", *what))

    def task(self, *what):
        self.calls.append(("task", *what))

    def end(self):
        self.calls.append(("end",))


def test_what_a_run_tells_arrives_as_it_was_told():
    notes = Notes()
    sender = RunProgressSender(lambda message: tell(notes, pickle.loads(pickle.dumps(message))))
    sender.begin("vpr seed 0", 9, 3)
    sender.step(4, 1, 20, 0.25)
    sender.task(4, 0.5, 1.5)
    sender.end()
    assert notes.calls == [("begin", "vpr seed 0", 9, 3), ("step", 4, 1, 20, 0.25), ("task", 4, 0.5, 1.5), ("end",)]


def test_steps_are_sent_once_in_a_while():
    sent = []
    sender = RunProgressSender(sent.append)
    sender.begin("vpr seed 0", 1, 0)
    for step in range(1, 1000):
        sender.step(1, step, 1000, 0.5)
    sender.task(1, 0.5, 1.0)
    sender.end()
    assert sent[:2] == [RunBegan("vpr seed 0", 1, 0), StepDone(1, 1, 1000, 0.5)]
    assert sent[-2:] == [TaskDone(1, 0.5, 1.0), RunEnded()]
    assert len(sent) < 100


def test_tasks_that_take_no_time_are_not_all_sent():
    sent = []
    sender = RunProgressSender(sent.append)
    for task in range(1, 1000):
        sender.task(task, 0.5, 0.0)
    assert sent[0] == TaskDone(1, 0.5, 0.0)
    assert len(sent) < 100
