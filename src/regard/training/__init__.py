"""Training: the loop, learning-rate and teacher-forcing schedules, checkpoints."""

from regard.training.checkpoints import TrainingProgress
from regard.training.encoded_splits import TrainingStopped
from regard.training.trainer import TrainingObserver, train

__all__ = ["TrainingObserver", "TrainingProgress", "TrainingStopped", "train"]
