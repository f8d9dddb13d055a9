"""Programs that work on several devices of one task: a driver made of the drivers of its parts."""
