"""NAME: runs one script with the official SDK."""

import importlib
import sys
import warnings

TOPICS = {
    "session": "session",
    "train": "training",
    "loss": "loss",
    "save": "weights",
    "from": "weights",
    "sample": "sampling",
    "sampler": "sampling",
    "rest": "rest",
    "admin": "rest",
}


def module_of(name):
    return importlib.import_module("official." + TOPICS[name.partition("_")[0]])


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # deprecated calls are calls as well
    getattr(module_of(sys.argv[1]), sys.argv[1])()
