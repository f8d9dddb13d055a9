"""`python -m dfc`: the command line; how ranks are started."""

from dfc.cli.main import main

if __name__ == "__main__":
    main()
