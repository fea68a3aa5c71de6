"""`python -m situate` is `situate`."""

from situate.cli.main import main

main()
