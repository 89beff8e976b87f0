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


def main():
    (name,) = sys.argv[1:]
    warnings.simplefilter("ignore", FutureWarning)  # deprecated calls are calls as well
    topic = importlib.import_module("official." + TOPICS[name.partition("_")[0]])
    getattr(topic, name)()


main()
