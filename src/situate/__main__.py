"""`python -m situate` runs `situate`."""

from situate.cli.main import main

main()
