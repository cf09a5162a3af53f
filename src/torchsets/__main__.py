"""``python -m torchsets`` is the command ``torchsets``."""

from torchsets.lab.cli import main

if __name__ == "__main__":
    main()
