"""Training: the loop, its schedules, and the state to go on from."""

from regard.training.loop import Observer, train
from regard.training.material import Stopped
from regard.training.progress import Progress

__all__ = ["Observer", "Progress", "Stopped", "train"]
