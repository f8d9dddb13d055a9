"""Programs on a device that runs graphs: in comes a plan, out come calls of entries, mostly one launch each.

What differs from device to device stands behind a protocol (`device`), so that everything here runs on a simulated
device in the same way. A driver of such a device inherits `driver.GraphDriver`. Read first: `executor`, then `nodes`.
"""
