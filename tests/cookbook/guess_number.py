"""The recipe guess_number, from a checkpoint: guess_number.py load_checkpoint_path=tinker://... [SETTING=VALUE...]

The recipe's own command line has no setting for that, and without it a random model says nothing that the game can read.
"""

import asyncio

import chz
from tinker_cookbook.recipes.multiplayer_rl.guess_number.train import CLIConfig, build_config
from tinker_cookbook.rl import train


@chz.chz
class Settings(CLIConfig):
    load_checkpoint_path: str


def main():
    settings = chz.entrypoint(Settings)
    config = chz.replace(build_config(settings), load_checkpoint_path=settings.load_checkpoint_path)
    asyncio.run(train.main(config))


if __name__ == "__main__":
    main()
